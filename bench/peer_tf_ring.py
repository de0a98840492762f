# SPDX-License-Identifier: Apache-2.0
"""A worker of TensorFlow's MultiWorkerMirroredStrategy with its ring, as a peer of scaling.py.

Usage: peer_tf_ring.py BATCH STEPS      with TF_CONFIG; prints the processor seconds of these steps as JSON
"""
import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

BATCH, STEPS = int(sys.argv[1]), int(sys.argv[2])
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(2)  # with one thread, a worker deadlocks
RING = tf.distribute.experimental.CommunicationImplementation.RING
strategy = tf.distribute.MultiWorkerMirroredStrategy(
    communication_options=tf.distribute.experimental.CommunicationOptions(implementation=RING))


def weights(shape, fan_in, fan_out):
    limit = (6.0 / (fan_in + fan_out)) ** 0.5
    return tf.Variable(tf.random.stateless_uniform(shape, [1, fan_in], -limit, limit))


with strategy.scope():
    w = [weights([3, 3, 1, 32], 9, 288), tf.Variable(tf.zeros([32])),
         weights([3, 3, 32, 64], 288, 576), tf.Variable(tf.zeros([64])),
         weights([3136, 128], 3136, 128), tf.Variable(tf.zeros([128])),
         weights([128, 10], 128, 10), tf.Variable(tf.zeros([10]))]


def step():
    x = tf.random.stateless_uniform([BATCH, 28, 28, 1], [1, 2])
    y = tf.zeros([BATCH], tf.int32)
    with tf.GradientTape() as tape:
        h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w[0], 1, "SAME"), w[1]))
        h = tf.nn.max_pool2d(h, 2, 2, "SAME")
        h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(h, w[2], 1, "SAME"), w[3]))
        h = tf.reshape(tf.nn.max_pool2d(h, 2, 2, "SAME"), [-1, 3136])
        h = tf.nn.relu(tf.matmul(h, w[4]) + w[5])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=y, logits=tf.matmul(h, w[6]) + w[7]))
    context = tf.distribute.get_replica_context()
    grads = context.all_reduce(tf.distribute.ReduceOp.MEAN, tape.gradient(loss, w))
    for v, g in zip(w, grads):
        v.assign_sub(0.01 * g)
    return loss


@tf.function
def train():
    return strategy.run(step)


def sent():
    """Bytes over the loopback of this network namespace."""
    with open("/proc/self/net/dev") as f:
        line = [x for x in f if x.strip().startswith("lo:")][0]
    return int(line.split()[9])


def meet():
    """A barrier."""
    @tf.function
    def one():
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.SUM, tf.constant(1.0)))
    one()


for _ in range(3):
    train()
meet()
cpu, bytes_before = time.process_time(), sent()
for _ in range(STEPS):
    loss = train()
cpu = time.process_time() - cpu
meet()
os.write(1, (json.dumps({"cpu": cpu, "lo": sent() - bytes_before}) + "\n").encode())  # other threads write there, too
assert np.isfinite(float(strategy.reduce(tf.distribute.ReduceOp.MEAN, loss, axis=None)))
