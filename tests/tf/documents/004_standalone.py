# SPDX-License-Identifier: Apache-2.0
# Document 004, 3.2: a cluster of one task, "local", and a session at its address.      argv: address
import json
import sys

import tensorflow.compat.v1 as tf
from tensorflow.compat.v1.train import Server

tf.disable_v2_behavior()
address = sys.argv[1]
server = Server({"local": [address]}, job_name="local", task_index=0)

x = tf.placeholder(tf.float32, [None, 2], name="x")
y = tf.placeholder(tf.float32, [None, 1], name="y")
w = tf.get_variable("w", initializer=[[0.5], [-0.5]])
loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)

with tf.Session("grpc://" + address) as sess:
    sess.run(tf.global_variables_initializer())
    feed = {x: [[1., 2.], [3., -1.], [0., 1.]], y: [[1.], [2.], [-1.]]}
    losses = [float(sess.run([loss, train], feed)[0]) for _ in range(8)]
    print(json.dumps({"losses": losses, "w": sess.run(w).tolist(), "target": server.target == "grpc://" + address}))
