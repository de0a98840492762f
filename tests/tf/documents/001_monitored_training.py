# SPDX-License-Identifier: Apache-2.0
# Document 001, 4: a cluster of parameter servers and workers (ClusterSpec, Server, Job, Task). The chief trains in a
# MonitoredTrainingSession, by steps of a data set's iterator, and saves; then the other worker, in a worker session,
# continues where the chief stopped.      argv: cluster job index folder
import json
import sys

import tensorflow.compat.v1 as tf
from tensorflow.compat.v1.train import Server

tf.disable_v2_behavior()
cluster, job, index, folder = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
spec = tf.train.ClusterSpec(cluster)
server = Server(spec, job_name=job, task_index=index)
print("serving", flush=True)
if job == "ps":
    server.join()

worker = "/job:worker/task:%d" % index
with tf.device(worker):
    x = [[i % 5 - 2., i % 3 - 1.] for i in range(24)]
    rows = tf.data.Dataset.from_tensor_slices((x, [[2 * a - b] for a, b in x]))
    features, labels = tf.data.make_one_shot_iterator(rows.repeat().batch(8)).get_next()
with tf.device(tf.train.replica_device_setter(worker_device=worker, cluster=spec)):
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", initializer=[[0.5], [-0.5]])
    b = tf.get_variable("b", initializer=[0.25])
    loss = tf.reduce_mean(tf.square(tf.matmul(features, w) + b - labels))
    train = tf.train.AdamOptimizer(0.1).minimize(loss, global_step=step)

rates = "%s/rates%d" % (folder, index)
config = tf.ConfigProto(device_filters=["/job:ps", worker])
hooks = [tf.train.StopAtStepHook(num_steps=6), tf.train.StepCounterHook(every_n_steps=2, output_dir=rates),
         tf.train.NanTensorHook(loss)]
losses = []
with tf.train.MonitoredTrainingSession(server.target, is_chief=index == 0, checkpoint_dir=folder, hooks=hooks,
                                       config=config, save_checkpoint_steps=3) as sess:
    while not sess.should_stop():
        losses.append(float(sess.run([loss, train])[0]))

tf.summary.FileWriterCache.clear()  # closes the events' file
saved = tf.train.load_checkpoint(folder)
print(json.dumps({"losses": losses, "devices": [w.device, b.device, loss.device], "w": saved.get_tensor("w").tolist(),
                  "saved at": int(saved.get_tensor("global_step")),
                  "rates": sum(v.tag == "global_step/sec" for f in tf.gfile.Glob(rates + "/*")
                               for e in tf.train.summary_iterator(f) for v in e.summary.value)}))
