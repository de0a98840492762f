# SPDX-License-Identifier: Apache-2.0
"""Names of devices and the device setter, on random names and graphs: TensorFlow gives nodes the devices that we
give them when it imports the same graph in the setter's scope."""
import ctypes
import random

NAMES = ["parts of a device's name", "replica_device_setter"]


class ReplicaDevices(ctypes.Structure):
    _fields_ = [("ps_tasks", ctypes.c_int), ("ps_device", ctypes.c_char_p), ("worker_device", ctypes.c_char_p),
                ("by_bytes", ctypes.c_bool), ("keep", ctypes.c_bool)]


def device(rng, jobs=("ps", "worker", "other_job", "a-b.c")):
    """A name, often of a part only."""
    parts = ["/job:" + rng.choice(jobs), "/replica:%d" % rng.randrange(3), "/task:%d" % rng.randrange(4),
             rng.choice(["/cpu:0", "/CPU:1", "/gpu:2", "/device:GPU:0", "/device:CPU:*", "/device:XLA_CPU:3", "/cpu"])]
    parts = [p for p in parts if rng.random() < 0.5]
    if rng.random() < 0.3:
        rng.shuffle(parts)
    return "".join(parts)


def with_devices(graph_def, **settings):
    """What our setter makes of it, as a GraphDef."""
    import meshflow_lib as mf
    import tensorflow.compat.v1 as tf
    graph, data, size = mf.P(), ctypes.c_void_p(), ctypes.c_size_t()
    raw = graph_def.SerializeToString()
    mf.check(mf.lib.mf_graph_new(ctypes.byref(graph)))
    try:
        mf.check(mf.lib.mf_graph_decode(graph, raw, ctypes.c_size_t(len(raw))))
        mf.check(mf.lib.mf_graph_set_devices(graph, ctypes.byref(ReplicaDevices(**settings))))
        mf.check(mf.lib.mf_graph_encode(graph, ctypes.byref(data), ctypes.byref(size)))
        return tf.GraphDef.FromString(ctypes.string_at(data, size.value))
    finally:
        mf.lib.mf_bytes_free(data)
        mf.lib.mf_graph_free(graph)


def differences(what, ours, theirs):
    ours, theirs = ({n.name: n.device for n in g.node} for g in (ours, theirs))
    for name in theirs:
        if ours[name] != theirs[name]:
            yield "%s: %s: ours %s, theirs %s" % (what, name, ours[name], theirs[name])


def check_names(rng, tf):
    for _ in range(300):
        outer, inner = device(rng), device(rng)
        with tf.Graph().as_default() as g:
            with tf.device(outer), tf.device(inner):
                tf.no_op(name="a")
        bare = tf.GraphDef.FromString(g.as_graph_def().SerializeToString())
        bare.node[0].device = inner
        yield from differences("%s in %s" % (inner, outer), with_devices(bare, worker_device=outer.encode()),
                               g.as_graph_def())


def random_graph(rng, tf):
    """Variables of both kinds, tables, and others, on devices or beside each other."""
    with tf.Graph().as_default() as g:
        made = []
        for i in range(rng.randrange(2, 16)):
            with tf.device(device(rng) if rng.random() < 0.4 else None):
                with tf.colocate_with(rng.choice(made) if made and rng.random() < 0.2 else None, True):
                    kind = rng.randrange(4)
                    shape = [rng.randrange(1, 20) for _ in range(rng.randrange(3))]
                    dtype = rng.choice([tf.float32, tf.float64, tf.int32])
                    if kind < 2:
                        v = tf.Variable(tf.zeros(shape, dtype), name="v%d" % i, use_resource=kind == 0)
                        made.append(v.op if kind else v.handle.op)
                    elif kind == 2:
                        made.append(tf.constant(1.0, name="c%d" % i).op)
                    else:
                        made.append(tf.identity(tf.constant(2, name="d%d" % i)).op)
    return g.as_graph_def()


def greedy(n):
    """The strategy that once was tf.contrib.training.GreedyLoadBalancingStrategy."""
    loads = [0] * n

    def choose(op):
        task = loads.index(min(loads))
        shape = op.get_attr("shape")
        size = 1
        for d in shape.dim:
            size *= d.size
        loads[task] += size * op.get_attr("dtype").size
        return task
    return choose


def check_setter(rng, tf):
    for i in range(60):
        graph = random_graph(rng, tf)
        n, by_bytes, keep = rng.randrange(1, 5), rng.random() < 0.5, rng.random() < 0.2
        ps, worker = "/job:ps" + rng.choice(["", "/cpu:0"]), "/job:worker" + rng.choice(["", "/task:1", "/gpu:0"])
        setter = tf.train.replica_device_setter(
            ps_tasks=n, ps_device=ps, worker_device=worker, merge_devices=not keep,
            ps_strategy=greedy(n) if by_bytes else None)
        with tf.Graph().as_default() as g:
            with tf.device(setter):
                tf.import_graph_def(graph, name="")
        yield from differences("graph %d" % i, with_devices(
            graph, ps_tasks=n, ps_device=ps.encode(), worker_device=worker.encode(), by_bytes=by_bytes, keep=keep),
            g.as_graph_def())


def check(name, seed):
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    rng = random.Random("%s %d" % (name, seed))
    fn = check_names if name == NAMES[0] else check_setter
    return dict(failures=list(fn(rng, tf)))
