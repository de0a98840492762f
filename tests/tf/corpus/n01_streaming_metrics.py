# SPDX-License-Identifier: Apache-2.0
# cluster: ps1w1     tf.metrics inside a training loop, updated in a cond every second step, local variables on the worker
from _common import *
v1(); R = {}
x, y = data(32); labels = (y[:, 0] > 0).astype(np.int64)
with tf.device(tf.train.replica_device_setter(cluster=tf.train.ClusterSpec(CLUSTER))):
    xp, lp = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int64, [None])
    w = tf.get_variable("w", initializer=np.zeros((4, 2), np.float32)); b = tf.get_variable("b", initializer=np.zeros(2, np.float32))
    logits = tf.matmul(xp, w) + b; prob = tf.nn.softmax(logits)[:, 1]; guess = tf.argmax(logits, 1)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=lp, logits=logits))
    step = tf.train.get_or_create_global_step(); train = tf.train.AdamOptimizer(.1).minimize(loss, step)
    with tf.device("/job:worker/task:0"):
        acc, acc_up = tf.metrics.accuracy(lp, guess); mean, mean_up = tf.metrics.mean(loss); rec, rec_up = tf.metrics.recall(lp, guess)
        per, per_up = tf.metrics.mean_per_class_accuracy(lp, guess, 2); pt, pt_up = tf.metrics.precision_at_thresholds(lp, prob, [.3, .5, .7])
        mse, mse_up = tf.metrics.root_mean_squared_error(tf.cast(lp, tf.float32), prob)
    with tf.control_dependencies([train]):
        due = tf.equal(step.read_value() % 2, 0)
        with tf.control_dependencies([due]):
            seen = tf.cond(due, lambda: tf.identity(tf.metrics.mean(loss * 2, name="inside")[1]), lambda: tf.constant(-1.))
ups = [acc_up, mean_up, rec_up, per_up, pt_up, mse_up]
with tf.Session(TARGET) as s:
    s.run([tf.global_variables_initializer(), tf.local_variables_initializer()]); rows = []
    for i in range(6):
        f = {xp: x[8 * (i % 4):8 * (i % 4) + 8], lp: labels[8 * (i % 4):8 * (i % 4) + 8]}
        s.run(ups, f); rows.append(s.run(seen, f) >= 0)
    R["seen"] = rows; R["metrics"] = s.run([acc, mean, rec, per, pt, mse]); s.run(tf.local_variables_initializer())
    R["fresh"] = s.run([acc, mean]); R["locals"] = [v.name for v in tf.local_variables()]; R["w"] = s.run(w)
emit(**R)
