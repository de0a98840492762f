# SPDX-License-Identifier: Apache-2.0
# cluster: ps1w1     an RNN as tf.while_loop with TensorArrays, clipped gradients through time, in both kinds of control flow
# tol: 0.0001
from _common import *
R = {}
def program():
    x = rnd((5, 7, 3), 1); y = rnd((5, 2), 2)
    with tf.device(tf.train.replica_device_setter(cluster=tf.train.ClusterSpec(CLUSTER))):
        xp, yp, n = tf.placeholder(tf.float32, [None, None, 3]), tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.int32, [None])
        wx, wh = tf.get_variable("wx", initializer=rnd((3, 4), 3, .5)), tf.get_variable("wh", initializer=rnd((4, 4), 4, .5)); wo = tf.get_variable("wo", initializer=rnd((4, 2), 5, .5))
        t = tf.shape(xp)[1]; ins = tf.TensorArray(tf.float32, t, element_shape=[None, 3]).unstack(tf.transpose(xp, [1, 0, 2]))
        def body(i, h, out):
            new = tf.tanh(tf.matmul(ins.read(i), wx) + tf.matmul(h, wh)); alive = tf.cast(i < n, tf.float32)[:, None]; h = alive * new + (1 - alive) * h
            return i + 1, h, out.write(i, h)
        _, h, out = tf.while_loop(lambda i, *_: i < t, body, [0, tf.zeros([tf.shape(xp)[0], 4]), tf.TensorArray(tf.float32, t, element_shape=[None, 4])], parallel_iterations=4)
        states = tf.transpose(out.stack(), [1, 0, 2]); loss = tf.reduce_mean(tf.square(tf.matmul(h, wo) - yp)) + .01 * tf.reduce_sum(states ** 2)
        opt = tf.train.AdamOptimizer(.05); vs = tf.trainable_variables(); gs = tf.gradients(loss, vs); clipped, norm = tf.clip_by_global_norm(gs, .3)
        train = opt.apply_gradients(zip(clipped, vs)); second = tf.gradients(tf.reduce_sum(gs[0] ** 2), xp)[0] if tf.control_flow_v2_enabled() else tf.gradients(loss, xp)[0]
    with tf.Session(TARGET) as s:
        f = {xp: x, yp: y, n: [7, 3, 0, 5, 1]}; s.run(tf.global_variables_initializer())
        rows = [s.run([loss, norm, train], f)[:2] for _ in range(5)]
        return dict(rows=rows, states=s.run(states, f)[1], short=s.run(loss, {xp: x[:, :1], yp: y, n: [1] * 5}), second=s.run(second, f)[0, 0])
v1()
for kind in ("v1", "v2"):
    (tf.enable_control_flow_v2 if kind == "v2" else tf.disable_control_flow_v2)()
    with tf.Graph().as_default(): R[kind] = program()
emit(**R)
