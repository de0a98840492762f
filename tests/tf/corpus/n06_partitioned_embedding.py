# SPDX-License-Identifier: Apache-2.0
# cluster: ps2w2     embeddings cut by partitioners over two parameter servers, looked up both ways, trained by two workers in turn
from _common import *
v1(); R = {}
ids = np.array([[0, 3, 7], [9, 3, 1]]); goal = rnd((2, 3), 8)
def build(worker):
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:%d" % worker)):
        with tf.variable_scope("emb"):
            a = tf.get_variable("mod", [10, 3], initializer=tf.random_normal_initializer(seed=1), partitioner=tf.fixed_size_partitioner(3)); b = tf.get_variable("div", [10, 3], initializer=tf.random_normal_initializer(seed=2), partitioner=tf.min_max_variable_partitioner(4, min_slice_size=16))
            c = tf.get_variable("wide", [2, 6], initializer=tf.random_normal_initializer(seed=3), partitioner=tf.variable_axis_size_partitioner(24, axis=1))
        ip = tf.placeholder(tf.int64, [None, None]); ea, eb = tf.nn.embedding_lookup(a, ip, "div"), tf.nn.embedding_lookup(b, ip, "div")
        sp = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([2, 5, 2], tf.int64), [2, 2]); es = tf.nn.embedding_lookup_sparse(a, sp, None, partition_strategy="div", combiner="sqrtn", max_norm=1.)
        loss = tf.reduce_sum(tf.square(tf.reduce_mean(ea + 2 * eb, 1) + es - goal)) + tf.reduce_sum(tf.convert_to_tensor(c) ** 2)
        step = tf.train.get_or_create_global_step(); opt = tf.train.AdagradOptimizer(.3); gv = opt.compute_gradients(loss); train = opt.apply_gradients(gv, step)
    return ip, loss, train, step, gv
graphs = []
for worker in range(2):
    with tf.Graph().as_default() as g: graphs.append((g, build(worker), tf.global_variables_initializer(), tf.global_variables(), tf.train.Saver()))
R["kinds"] = [[v.op.name, type(d).__name__] for d, v in graphs[0][1][4]]; R["devices"] = sorted({v.device for v in graphs[0][3]})
sessions = [tf.Session(target("worker", i), graph=graphs[i][0]) for i in range(2)]
sessions[0].run(graphs[0][2])
R["losses"] = [sessions[i % 2].run([graphs[i % 2][1][1], graphs[i % 2][1][2]], {graphs[i % 2][1][0]: ids})[0] for i in range(6)]
R["values"] = sessions[1].run({v.name: v for v in graphs[1][3]})
path = graphs[0][4].save(sessions[0], SCRATCH + "/cut"); reader = tf.train.load_checkpoint(path); R["whole"] = reader.get_tensor("emb/mod")[3]
with tf.Graph().as_default(), tf.Session(target("worker", 1)) as s:
    with tf.variable_scope("emb"): whole = tf.get_variable("mod", [10, 3])
    tf.train.Saver({"emb/mod": whole}).restore(s, path); R["as_one"] = s.run(whole)[5]
for s in sessions: s.close()
emit(**R)
