# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's training step, as a worker of train.py: peer_tf.py MODEL BATCH PRECISION VARIANT THREADS.

VARIANT: session (a graph in tf.compat.v1.Session), xla (the same compiled by XLA), first (a single step), train (followed
by EPOCHS RATE: a complete training; prints the test accuracy).
"""
import gzip
import sys
import time

import numpy as np
import tensorflow as tf

from peer_tf_nets import MODELS

MODEL, BATCH, PRECISION, VARIANT = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
v1 = tf.compat.v1
tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[5]))
tf.config.threading.set_inter_op_parallelism_threads(int(sys.argv[5]))


def loss_of(net, w, x, y):
    if PRECISION == "bf16":
        logits = tf.cast(net(tf.cast(x, tf.bfloat16), [tf.cast(v, tf.bfloat16) for v in w]), tf.float32)
    else:
        logits = net(x, w)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    if MODEL == "resnet20":
        loss += 2e-4 * tf.add_n([tf.nn.l2_loss(v) for v in w if len(v.shape) == 4])
    return loss


def momentum(w, slots, grads, rate):
    for v, s, g in zip(w, slots, grads):
        g = tf.convert_to_tensor(g)  # of an embedding: XLA has no sparse updates
        tf.raw_ops.ResourceApplyMomentum(var=v.handle, accum=s.handle, lr=rate, grad=g, momentum=0.9)


def session_step():
    """One run of a graph per step."""
    graph = v1.Graph()
    with graph.as_default():
        w, net, data = MODELS[MODEL](BATCH)
        x, y = (v1.Variable(d, use_resource=True, trainable=False) for d in data)
        op = v1.train.MomentumOptimizer(0.01, 0.9).minimize(loss_of(net, w, x, y), var_list=w)
        init = v1.global_variables_initializer()
    session = v1.Session(graph=graph, config=v1.ConfigProto(
        intra_op_parallelism_threads=int(sys.argv[5]), inter_op_parallelism_threads=int(sys.argv[5])))
    session.run(init)
    return session.make_callable(op)


def xla_step():
    w, net, data = MODELS[MODEL](BATCH)
    x, y = (tf.constant(d) for d in data)
    slots = [tf.Variable(tf.zeros_like(v)) for v in w]

    @tf.function(jit_compile=True)
    def step():
        with tf.GradientTape() as tape:
            loss = loss_of(net, w, x, y)
        momentum(w, slots, tape.gradient(loss, w), 0.01)
    return step


def measure(step, seconds=0.6):
    for _ in range(3):
        step()
    n, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        step()
        n += 1
    return n * BATCH / (time.perf_counter() - begin)


def fashion(part):
    base = "/usr/share/datasets/fashion-mnist/%s-" % ("train" if part == "train" else "t10k")
    with gzip.open(base + "images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 28, 28, 1)
    with gzip.open(base + "labels-idx1-ubyte.gz") as f:
        return x, np.frombuffer(f.read(), np.uint8, offset=8).astype(np.int32)


def one_cycle(step, total, rate):
    """The same as Meshflow's schedule of that name."""
    x = step / total
    half = lambda t: 0.5 * (1 + np.cos(np.pi * min(t, 1.0)))  # noqa: E731
    if x < 0.3:
        return rate * (0.04 + 0.96 * (1 - half(x / 0.3)))
    return rate * (0.0001 + 0.9999 * half((x - 0.3) / 0.7))


def train(epochs, rate):
    x, y = fashion("train")
    xt, yt = fashion("test")
    w, net, _ = MODELS[MODEL](BATCH)
    slots = [tf.Variable(tf.zeros_like(v)) for v in w]

    @tf.function(reduce_retracing=True)
    def step(x, y, rate):
        with tf.GradientTape() as tape:
            loss = loss_of(net, w, tf.cast(x, tf.float32) / 255.0, y)
        momentum(w, slots, tape.gradient(loss, w), rate)

    @tf.function(reduce_retracing=True)
    def right(x, y):
        best = tf.argmax(net(tf.cast(x, tf.float32) / 255.0, w), 1, tf.int32)
        return tf.reduce_sum(tf.cast(best == y, tf.float32))
    n, total = 0, epochs * ((len(x) + BATCH - 1) // BATCH)
    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(len(x))
        for i in range(0, len(x), BATCH):
            part = order[i:i + BATCH]
            step(x[part], y[part], tf.constant(one_cycle(n, total, rate), tf.float32))
            n += 1
    print("%.4f" % (sum(float(right(xt[i:i + 500], yt[i:i + 500])) for i in range(0, len(xt), 500))
                    / len(xt)))


def main():
    if VARIANT == "first":
        session_step()()
        return
    if VARIANT == "train":
        train(int(sys.argv[6]), float(sys.argv[7]))
        return
    step = xla_step() if VARIANT == "xla" else session_step()
    measure(step, 0.2)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(measure(step), flush=True)


if __name__ == "__main__":
    main()
