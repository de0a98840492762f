# SPDX-License-Identifier: Apache-2.0
# cluster: ps1w2     while_loops whose body lies on two workers and whose variable lies on a parameter server; nested, with a cond inside
from _common import *
R = {}
def program():
    with tf.device("/job:ps/task:0"): total = tf.get_variable("total", initializer=0., use_resource=True); log = tf.get_variable("log", initializer=np.zeros(8, np.float32))
    n = tf.placeholder(tf.int32, []); start = tf.placeholder(tf.float32, [])
    def body(i, v):
        with tf.device("/job:worker/task:1"): v = v * 1.5 + 1
        with tf.device("/job:worker/task:0"): v = tf.cond(v > 20, lambda: v - 20, lambda: v)
        with tf.device("/job:ps/task:0"):
            with tf.control_dependencies([total.assign_add(v)]): v = tf.identity(v)
        def inner(j, u):
            with tf.device("/job:worker/task:1"): return j + 1, u + tf.cast(j, tf.float32)
        return i + 1, tf.while_loop(lambda j, u: j < i, inner, [0, v])[1]
    with tf.device("/job:worker/task:0"): out = tf.while_loop(lambda i, v: i < n, body, [0, start], parallel_iterations=1)[1]
    with tf.device("/job:worker/task:0"): powers = tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a.write(i, tf.pow(start, tf.cast(i, tf.float32)))), [0, tf.TensorArray(tf.float32, 4)])[1].stack()
    with tf.device("/job:worker/task:0"): slope = tf.gradients(powers, start)[0]; mapped = tf.map_fn(lambda e: e * start, powers); folded = tf.foldl(lambda a, e: a * .5 + e, mapped)
    keep = tf.assign(log[:4], powers) if not tf.control_flow_v2_enabled() else tf.assign(log, tf.pad(powers, [[0, 4]]))
    with tf.Session(TARGET) as s:
        s.run(tf.global_variables_initializer()); rows = [s.run(out, {n: k, start: 1.}) for k in (0, 1, 3, 5)]; s.run(keep, {start: 2.})
        return dict(rows=rows, total=s.run(total), more=s.run([powers, slope, mapped, folded], {start: 2.}), log=s.run(log))
v1()
for kind in ("v1", "v2"):
    (tf.enable_control_flow_v2 if kind == "v2" else tf.disable_control_flow_v2)()
    with tf.Graph().as_default(), tf.container(kind): R[kind] = program()
emit(**R)
