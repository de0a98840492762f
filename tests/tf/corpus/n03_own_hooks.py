# SPDX-License-Identifier: Apache-2.0
# cluster: ps1w1     a MonitoredTrainingSession with a Scaffold, hooks of the program's own, a listener, a feed hook, and an error in between
from _common import *
v1(); R = {"events": []}
x, y = data()
class Own(tf.train.SessionRunHook):
    def begin(s): s.ema = tf.get_default_graph().get_tensor_by_name("loss_mean/value:0"); s.missing = tf.report_uninitialized_variables(); R["events"].append("begin")
    def after_create_session(s, sess, coord): R["created"] = sess.run(s.missing).tolist()
    def before_run(s, c): return tf.train.SessionRunArgs({"ema": s.ema, "step": tf.train.get_global_step()}, {"lr:0": .05 if R.get("steps", 0) < 3 else .01})
    def after_run(s, c, v):
        R["steps"] = R.get("steps", 0) + 1; R["events"].append([int(v.results["step"]), float(v.results["ema"])])
        if R["steps"] == 7: c.request_stop()
    def end(s, sess): R["end"] = sess.run("w:0")
class Listener(tf.train.CheckpointSaverListener):
    def begin(s): R["events"].append("saver begins")
    def before_save(s, sess, step): R["events"].append("before %d" % step)
    def after_save(s, sess, step): R["events"].append("after %d" % step); return step >= 100
    def end(s, sess, step): R["events"].append("saver ends")
with tf.device(tf.train.replica_device_setter(cluster=tf.train.ClusterSpec(CLUSTER))):
    xp, yp, lr = tf.placeholder(tf.float32, [None, 4], "x"), tf.placeholder(tf.float32, [None, 1], "y"), tf.placeholder_with_default(.1, [], "lr")
    w = tf.get_variable("w", initializer=np.zeros((4, 1), np.float32)); loss = tf.reduce_mean(tf.square(tf.matmul(xp, w) - yp))
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1., 2.]), 0.)
    ema = tf.train.ExponentialMovingAverage(.5); keep = ema.apply([loss]); tf.identity(ema.average(loss), "loss_mean/value")
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies([keep]): train = tf.train.GradientDescentOptimizer(lr).minimize(loss, step)
    bonus = tf.get_variable("bonus", initializer=0., trainable=False); value = tf.placeholder(tf.float32, []); set_bonus = tf.assign(bonus, value); looked = table.lookup(tf.constant("b"))
scaffold = tf.train.Scaffold(init_fn=lambda sc, sess: sess.run(set_bonus, {value: 2.5}), saver=tf.train.Saver(max_to_keep=2))
hooks = [Own(), tf.train.CheckpointSaverHook(SCRATCH + "/own", save_steps=3, listeners=[Listener()], scaffold=scaffold),
         tf.train.FeedFnHook(lambda: {xp: x, yp: y}), tf.train.NanTensorHook(loss)]
with tf.train.MonitoredTrainingSession(TARGET, scaffold=scaffold, hooks=hooks, save_checkpoint_secs=None, save_checkpoint_steps=None, log_step_count_steps=None) as s:
    R["bonus"] = s.run_step_fn(lambda step_context: step_context.session.run([bonus, looked]))
    while not s.should_stop(): s.run(train)
R["files"] = sorted(f for f in os.listdir(SCRATCH + "/own") if f.endswith(".index"))
def broken():
    with tf.train.MonitoredTrainingSession(TARGET, hooks=[tf.train.FeedFnHook(lambda: {xp: x[:, :3], yp: y})]) as s: s.run(train)
R["broken"] = err(broken)
emit(**R)
