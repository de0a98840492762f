# SPDX-License-Identifier: Apache-2.0
# cluster: ps1w1     Q-learning: a feed loop with a replay buffer in the client, target weights copied now and then, partial runs, callables
from _common import *
v1(); R = {}
r = np.random.RandomState(0)
with tf.device(tf.train.replica_device_setter(cluster=tf.train.ClusterSpec(CLUSTER))):
    s0, s1, a, reward, done = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None]), tf.placeholder(tf.bool, [None])
    def q(x, scope):
        with tf.variable_scope(scope): return tf.matmul(tf.nn.relu(tf.matmul(x, tf.get_variable("w1", initializer=rnd((3, 5), 1)))), tf.get_variable("w2", initializer=rnd((5, 2), 2)))
    online, frozen = q(s0, "online"), q(s1, "frozen"); ov, fv = tf.trainable_variables("online"), tf.trainable_variables("frozen")
    want = reward + tf.where(done, tf.zeros_like(reward), .9 * tf.reduce_max(frozen, 1)); have = tf.gather_nd(online, tf.stack([tf.range(tf.shape(a)[0]), a], 1))
    loss = tf.losses.huber_loss(tf.stop_gradient(want), have); opt = tf.train.MomentumOptimizer(.05, .9); gvs = [(tf.clip_by_value(g, -1., 1.), v) for g, v in opt.compute_gradients(loss, ov)]; train = opt.apply_gradients(gvs)
    copy = tf.group(*[tf.assign(f, o) for f, o in zip(fv, ov)]); act = tf.argmax(online, 1); chance = tf.random.uniform([], seed=3)
    entropy = -tf.reduce_sum(tf.nn.softmax(online) * tf.nn.log_softmax(online), 1); total = tf.reduce_sum(entropy) + tf.reduce_sum(want)
with tf.Session(TARGET) as s:
    s.run(tf.global_variables_initializer()); greedy = s.make_callable(act, [s0]); state, memory, losses, acts = np.ones(3, np.float32), [], [], []
    for i in range(20):
        action = int(greedy(state[None])[0]) if s.run(chance) > .3 else i % 2
        new = (state * (.9 if action else -.5) + r.randn(3) * .1).astype(np.float32); memory.append((state, new, action, float(new.sum()), i % 7 == 6)); state = new; acts.append(action)
        if i >= 4:
            pick = [memory[k] for k in r.choice(len(memory), 4, replace=False)]; losses.append(s.run([loss, train], dict(zip((s0, s1, a, reward, done), map(np.array, zip(*pick)))))[0])
        if i % 6 == 5: s.run(copy)
    R.update(acts=acts, losses=losses, weights=s.run(ov[1]), frozen=s.run(fv[1]))
    R["wrong"] = err(lambda: s.run(loss, {s0: np.eye(3), s1: np.eye(3), a: [0, 1, 2], reward: [1.] * 3, done: [False] * 3}), "indices")
emit(**R)
