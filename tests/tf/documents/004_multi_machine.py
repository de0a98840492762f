# SPDX-License-Identifier: Apache-2.0
# Document 004, 3.2: parameter servers and workers, one process each; the variables go to the servers by
# replica_device_setter, and each worker has a session at its own server.      argv: cluster job index
import json
import sys

import tensorflow.compat.v1 as tf
from tensorflow.compat.v1.train import Server

tf.disable_v2_behavior()
cluster, job, index = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
server = Server(cluster, job_name=job, task_index=index)
print("serving", flush=True)
if job == "ps" or index > 0:
    server.join()

with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % index,
                                              cluster=tf.train.ClusterSpec(cluster))):
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    y = tf.placeholder(tf.float32, [None, 1], name="y")
    w = tf.get_variable("w", initializer=[[0.5], [-0.5]])
    b = tf.get_variable("b", initializer=[0.25])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)

with tf.Session(server.target) as sess:
    sess.run(tf.global_variables_initializer())
    feed = {x: [[1., 2.], [3., -1.], [0., 1.]], y: [[1.], [2.], [-1.]]}
    losses = [float(sess.run([loss, train], feed)[0]) for _ in range(8)]
    print(json.dumps({"losses": losses, "devices": [w.device, b.device]}))
with tf.Session("grpc://" + cluster["worker"][1]) as sess:  # the other worker sees the same variables
    print(json.dumps({"w": sess.run(w).tolist(), "b": sess.run(b).tolist()}))
