# SPDX-License-Identifier: Apache-2.0
# cluster: ps1w1     a GAN: two optimizers with variables of their own in turn, seeded noise, an average of the generator
# tol: 0.0001
from _common import *
v1(); R = {}
with tf.device(tf.train.replica_device_setter(cluster=tf.train.ClusterSpec(CLUSTER))):
    def dense(x, n, name, seed): return tf.matmul(x, tf.get_variable(name + "/w", initializer=rnd((int(x.shape[-1]), n), seed, .4))) + tf.get_variable(name + "/b", initializer=np.zeros(n, np.float32))
    z = tf.random.normal([16, 3], seed=4); real = tf.random.uniform([16, 2], seed=5) + 1.
    with tf.variable_scope("gen"): fake = dense(tf.nn.leaky_relu(dense(z, 6, "a", 1)), 2, "b", 2)
    def critic(x, reuse):
        with tf.variable_scope("critic", reuse=reuse): return dense(tf.nn.elu(dense(x, 6, "a", 3)), 1, "b", 4)
    r, f = critic(real, False), critic(fake, True); ones = tf.ones_like(r)
    bce = lambda l, t: tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=t, logits=l))
    mix = real + tf.random.uniform([16, 1], seed=6) * (tf.stop_gradient(fake) - real); slope = tf.sqrt(tf.reduce_sum(tf.gradients(critic(mix, True), mix)[0] ** 2, 1) + 1e-8)
    d_loss = bce(r, ones * .9) + bce(f, ones * 0) + tf.reduce_mean((slope - 1) ** 2); g_loss = bce(f, ones)
    gv, dv = tf.trainable_variables("gen"), tf.trainable_variables("critic"); step = tf.train.get_or_create_global_step()
    d_train = tf.train.RMSPropOptimizer(.01, momentum=.5).minimize(d_loss, var_list=dv); g_opt = tf.train.AdamOptimizer(.02, beta1=.5); g_train = g_opt.minimize(g_loss, step, var_list=gv)
    ema = tf.train.ExponentialMovingAverage(.9, step)
    with tf.control_dependencies([g_train]): g_train = ema.apply(gv)
    load = tf.group(*[tf.assign(v, ema.average(v)) for v in gv])
with tf.Session(TARGET) as s:
    s.run(tf.global_variables_initializer()); rows = []
    for i in range(5): rows.append([s.run([d_loss, d_train])[0], s.run([g_loss, g_train])[0]])
    R["rows"] = rows; R["gen"] = s.run(gv[0]); s.run(load); R["average"] = s.run(gv[0]); R["slots"] = s.run([g_opt.get_slot(gv[0], "m"), g_opt.get_slot(gv[0], "v")])[1]; R["step"] = s.run(step)
emit(**R)
