# SPDX-License-Identifier: Apache-2.0
# cluster: local1     seed 003 4.4: pruning mask, fake-quantisation training, int8 quantise/dequantise, low-rank SVD
# tol: 1e-4
from _common import *
v1()
x, y = data(16, 6, 2)
xp, yp = tf.placeholder(tf.float32, [None, 6]), tf.placeholder(tf.float32, [None, 2])
w = tf.get_variable("w", initializer=rnd((6, 2), 1)); mask = tf.get_variable("mask", [6, 2], initializer=tf.ones_initializer(), trainable=False)
thr = tf.nn.top_k(tf.reshape(tf.abs(w), [-1]), 6)[0][-1]; prune = tf.assign(mask, tf.cast(tf.abs(w) >= thr, tf.float32))
fq = tf.quantization.fake_quant_with_min_max_args(w * mask, -2., 2., 8)
loss = tf.reduce_mean(tf.square(tf.matmul(xp, fq) - yp)); train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
mn, mx = tf.reduce_min(w), tf.reduce_max(w); fqv = tf.quantization.fake_quant_with_min_max_vars(w, mn, mx, 4); fqc = tf.quantization.fake_quant_with_min_max_vars_per_channel(w, [-1., -1.], [1., 1.])
q = tf.quantization.quantize(w, -2., 2., tf.qint8, mode="SCALED"); dq = tf.quantization.dequantize(q.output, q.output_min, q.output_max, mode="SCALED"); q8 = tf.quantization.quantize(w, -2., 2., tf.quint8, mode="MIN_COMBINED"); dq8 = tf.quantization.dequantize(q8.output, q8.output_min, q8.output_max, mode="MIN_COMBINED"); qd = tf.quantization.quantize_and_dequantize(w, -2., 2.)
m = tf.constant(rnd((6, 5), 4)); sv, uu, vv = tf.linalg.svd(m); lr = tf.matmul(uu[:, :2] * sv[:2], vv[:, :2], transpose_b=True)
with tf.Session(TARGET) as s:
    s.run(tf.global_variables_initializer())
    s.run(prune); ls = [s.run([loss, train], {xp: x, yp: y})[0] for _ in range(4)]
    emit(losses=ls, nnz=s.run(tf.reduce_sum(mask)), fqv=s.run(fqv), fqc=s.run(fqc), dq=s.run(dq), dq8=s.run(dq8), qd=s.run(qd), lowrank=s.run(lr), qraw=s.run(tf.bitcast(q.output, tf.int8)))
