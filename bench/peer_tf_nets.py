# SPDX-License-Identifier: Apache-2.0
"""The zoo's models (src/models/zoo_*.c) as TensorFlow's ops, for peer_tf.py. A maker returns the weights, a function from
input and weights to scores, and input and labels of a batch. Moving averages of batch normalization are left out.
"""
import numpy as np
import tensorflow as tf


class Weights(list):
    """Makes them, and later gives the same values (or casts of them) in the same order."""

    def new(self, *shape, fan_in=None, fan_out=None, value=None):
        if value is not None:
            self.append(tf.Variable(tf.fill(shape, float(value))))
        else:
            limit = (6.0 / ((fan_in or shape[0]) + (fan_out or shape[-1]))) ** 0.5
            self.append(tf.Variable(tf.random.uniform(shape, -limit, limit, seed=1)))


def images(batch, *dims):
    return np.random.rand(batch, *dims).astype(np.float32), np.random.randint(0, 10, batch).astype(np.int32)


def tokens(batch, labels, classes):
    return (np.random.randint(0, 100, (batch, 64)).astype(np.int32),
            np.random.randint(0, classes, batch * labels).astype(np.int32))


def mlp(batch):
    w = Weights()
    w.new(784, 128)
    w.new(128, value=0)
    w.new(128, 10)
    w.new(10, value=0)

    def net(x, w):
        x = tf.nn.relu(tf.matmul(tf.reshape(x, [-1, 784]), w[0]) + w[1])
        return tf.matmul(x, w[2]) + w[3]
    return w, net, images(batch, 28, 28, 1)


def fashion_cnn(batch):
    w = Weights()
    for shape, fans in (((3, 3, 1, 32), (9, 288)), ((3, 3, 32, 64), (288, 576)), ((3136, 128), (3136, 128)),
                        ((128, 10), (128, 10))):
        w.new(*shape, fan_in=fans[0], fan_out=fans[1])
        w.new(shape[-1], value=0)

    def net(x, w):
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w[0], 1, "SAME"), w[1]))
        x = tf.nn.max_pool2d(x, 2, 2, "SAME")
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w[2], 1, "SAME"), w[3]))
        x = tf.reshape(tf.nn.max_pool2d(x, 2, 2, "SAME"), [-1, 3136])
        x = tf.nn.relu(tf.matmul(x, w[4]) + w[5])
        return tf.matmul(x, w[6]) + w[7]
    return w, net, images(batch, 28, 28, 1)


def resnet20(batch):
    w = Weights()
    blocks = [(16 << stage, 2 if stage > 0 and block == 0 else 1) for stage in range(3) for block in range(3)]

    def new_conv(size, inputs, outputs):
        w.new(size, size, inputs, outputs, fan_in=size * size * inputs, fan_out=size * size * outputs)
        w.new(outputs, value=1)
        w.new(outputs, value=0)

    new_conv(3, 3, 16)
    inputs = 16
    for outputs, stride in blocks:
        new_conv(3, inputs, outputs)
        new_conv(3, outputs, outputs)
        if stride > 1:
            new_conv(1, inputs, outputs)
        inputs = outputs
    w.new(64, 10)
    w.new(10, value=0)

    def net(x, w):
        w = iter(w)

        def conv_norm(x, stride):
            x = tf.nn.conv2d(x, next(w), stride, "SAME")
            scale, offset = tf.cast(next(w), tf.float32), tf.cast(next(w), tf.float32)
            return tf.compat.v1.nn.fused_batch_norm(x, scale, offset, epsilon=1e-3, is_training=True)[0]

        x = tf.nn.relu(conv_norm(x, 1))
        for _, stride in blocks:
            y = conv_norm(tf.nn.relu(conv_norm(x, stride)), 1)
            x = tf.nn.relu(y + (conv_norm(x, stride) if stride > 1 else x))
        return tf.matmul(tf.reduce_mean(x, [1, 2]), next(w)) + next(w)
    return w, net, images(batch, 32, 32, 3)


def transformer(batch, vocabulary=256, steps=64, width=64, heads=4, layers=2):
    w = Weights()
    w.new(vocabulary, width)
    w.new(steps, width)

    def new_dense(inputs, outputs):
        w.new(inputs, outputs)
        w.new(outputs, value=0)

    def new_norm():
        w.new(width, value=1)
        w.new(width, value=0)

    for _ in range(layers):
        new_norm()
        new_dense(width, 3 * width)
        new_dense(width, width)
        new_norm()
        new_dense(width, 4 * width)
        new_dense(4 * width, width)
    new_norm()
    w.new(width, vocabulary)
    mask = np.triu(np.full((steps, steps), -1e9, np.float32), 1)

    def net(x, w):
        w = iter(w)

        def norm(x):
            mean, variance = tf.nn.moments(x, [-1], keepdims=True)
            return tf.nn.batch_normalization(x, mean, variance, offset=None, scale=next(w), variance_epsilon=1e-5) + next(w)

        def dense(x):
            return tf.matmul(tf.reshape(x, [batch * steps, -1]), next(w)) + next(w)

        def attention(x):
            qkv = tf.transpose(tf.reshape(dense(x), [batch, steps, 3, heads, width // heads]), [2, 0, 3, 1, 4])
            q, k, v = tf.unstack(qkv)
            scores = tf.matmul(q * (width // heads) ** -0.5, k, transpose_b=True) + tf.cast(mask, q.dtype)
            y = tf.transpose(tf.matmul(tf.nn.softmax(scores), v), [0, 2, 1, 3])
            return tf.nn.dropout(tf.reshape(dense(tf.reshape(y, [batch, steps, width])), [batch, steps, width]), 0.1)

        table = next(w)
        x = tf.nn.dropout(tf.gather(table, x) + next(w), 0.1)
        for _ in range(layers):
            x += attention(norm(x))
            y = dense(tf.nn.gelu(dense(norm(x)), approximate=True))
            x += tf.nn.dropout(tf.reshape(y, [batch, steps, width]), 0.1)
        return tf.matmul(tf.reshape(norm(x), [-1, width]), next(w))
    return w, net, tokens(batch, steps, vocabulary)


def lstm(batch, vocabulary=20000, steps=64, width=64, units=64):
    """Unrolled; the inputs of all steps are multiplied in one product, as ours are."""
    w = Weights()
    w.new(vocabulary, width)
    w.new(width, 4 * units)
    w.new(units, 4 * units)
    w.new(4 * units, value=0)
    w.new(units, 2)
    w.new(2, value=0)

    def net(x, w):
        x = tf.reshape(tf.gather(w[0], x), [batch * steps, width])
        x = tf.unstack(tf.reshape(tf.matmul(x, w[1]) + w[3], [batch, steps, 4 * units]), axis=1)
        h = c = tf.zeros([batch, units], w[1].dtype)
        for step in x:
            i, f, g, o = tf.split(step + tf.matmul(h, w[2]), 4, axis=1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            h = tf.sigmoid(o) * tf.tanh(c)
        return tf.matmul(tf.nn.dropout(h, 0.2), w[4]) + w[5]
    return w, net, tokens(batch, 1, 2)


MODELS = {"mlp": mlp, "fashion-cnn": fashion_cnn, "resnet20": resnet20, "transformer": transformer, "lstm": lstm}
