# SPDX-License-Identifier: Apache-2.0
# cluster: ps2w2     batch normalisation with UPDATE_OPS on parameter servers; saved, restored with variables elsewhere and cut otherwise
# tol: 0.0001
from _common import *
v1(); R = {}
x, y = data(32, 6, 1)
def build(train, where, partitioner=None):
    with tf.device(where), tf.variable_scope("net", partitioner=partitioner):
        xp, yp = tf.placeholder(tf.float32, [None, 6]), tf.placeholder(tf.float32, [None, 1])
        w1 = tf.get_variable("w1", [6, 8], initializer=tf.random_uniform_initializer(-.5, .5, seed=3)); h = tf.matmul(xp, w1)
        with tf.variable_scope("bn") as bn:
            bn.set_partitioner(None)
            scale, offset = tf.get_variable("scale", initializer=np.ones(8, np.float32)), tf.get_variable("offset", initializer=np.zeros(8, np.float32))
            mean, var = tf.get_variable("mean", initializer=np.zeros(8, np.float32), trainable=False), tf.get_variable("var", initializer=np.ones(8, np.float32), trainable=False)
        h4 = tf.reshape(h, [-1, 1, 1, 8])
        if train:
            out, m, v = tf.nn.fused_batch_norm(h4, scale, offset, epsilon=1e-3)
            for a, n in ((mean, m), (var, v)): tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_sub(a, (a - n) * .1))
        else: out, _, _ = tf.nn.fused_batch_norm(h4, scale, offset, mean, var, epsilon=1e-3, is_training=False)
        w2 = tf.get_variable("w2", [8, 1], initializer=tf.random_uniform_initializer(-.5, .5, seed=4))
        p = tf.matmul(tf.nn.relu(tf.reshape(out, [-1, 8])), w2); loss = tf.reduce_mean(tf.square(p - yp))
        op = None
        if train:
            with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)): op = tf.train.MomentumOptimizer(.02, .9).minimize(loss)
    return xp, yp, p, loss, op, tf.train.Saver(sharded=train)
with tf.Graph().as_default():
    xp, yp, p, loss, op, saver = build(True, tf.train.replica_device_setter(ps_tasks=2), tf.fixed_size_partitioner(2))
    with tf.Session(TARGET) as s:
        s.run(tf.global_variables_initializer()); R["losses"] = [s.run([loss, op], {xp: x, yp: y})[0] for _ in range(8)]
        path = saver.save(s, SCRATCH + "/bn", global_step=8)
        R["variables"] = s.run({v.name: v for v in tf.global_variables()})
with tf.Graph().as_default():
    xp, yp, p, loss, _, saver = build(False, "/job:worker/task:1")
    with tf.Session(target("worker", 1)) as s: saver.restore(s, path); R["restored"] = s.run([loss, p[:3]], {xp: x, yp: y})
R["listed"] = [[n, sh] for n, sh in tf.train.list_variables(path)]
emit(**R)
