# SPDX-License-Identifier: Apache-2.0
# Document 001, 4: a client connects to the master through the SessionManager. The worker starts first and waits, without
# success at first. The chief makes the session; a Coordinator stops its threads, and a QueueRunner fills the queue from
# which it trains. Then the worker continues. A restarted chief begins with the checkpoint of the first one.
# argv: cluster job index folder
import json
import sys
import time

import tensorflow.compat.v1 as tf
from tensorflow.compat.v1.train import Server

tf.disable_v2_behavior()
cluster, job, index, folder = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
STEPS = 6
server = Server(cluster, job_name=job, task_index=index)
print("serving", flush=True)
if job == "ps":
    server.join()

worker = "/job:worker/task:%d" % index
with tf.device(tf.train.replica_device_setter(worker_device=worker, cluster=tf.train.ClusterSpec(cluster))):
    step = tf.train.get_or_create_global_step()
    chief_is_done = tf.get_variable("done", initializer=False, trainable=False)
    done = tf.assign(chief_is_done, True)
    w = tf.get_variable("w", initializer=[[0.5], [-0.5]])
    with tf.device(worker):
        queue = tf.queue.FIFOQueue(4, [tf.float32], shapes=[[2]])
        counter = tf.Variable(0., trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES])
        i = tf.assign_add(counter, 1.)
        runner = tf.train.QueueRunner(queue, [queue.enqueue([tf.stack([tf.sin(i), tf.cos(i)])])])
        x = queue.dequeue_many(4)
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - tf.matmul(x, [[1.], [2.]])))
    train = tf.train.MomentumOptimizer(0.2, 0.9).minimize(loss, global_step=step)
init, local = tf.global_variables_initializer(), tf.local_variables_initializer()
saver = tf.train.Saver()
config = tf.ConfigProto(device_filters=["/job:ps", worker])
manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables(tf.global_variables()),
                                  recovery_wait_secs=0.5)


def fit(sess):
    sess.run(local)
    coord, losses = tf.train.Coordinator(), []
    threads = runner.create_threads(sess, coord, daemon=True, start=True)
    while not coord.should_stop():
        losses.append(float(sess.run([loss, train])[0]))
        if len(losses) == STEPS:
            coord.request_stop()
    coord.join(threads, stop_grace_period_secs=60)
    return losses


if index > 0:
    try:
        manager.wait_for_session(server.target, config, max_wait_secs=1)
    except tf.errors.DeadlineExceededError as e:
        print(json.dumps({"waited": type(e).__name__}), flush=True)
    with manager.wait_for_session(server.target, config, max_wait_secs=60) as sess:
        while not sess.run(chief_is_done):
            time.sleep(0.1)
        print(json.dumps({"losses": fit(sess), "step": int(sess.run(step))}))
else:
    with manager.prepare_session(server.target, init_op=init, saver=saver, checkpoint_dir=folder, config=config) as sess:
        begun = int(sess.run(step))
        print(json.dumps({"begun at": begun, "losses": fit(sess)}))
        saver.save(sess, folder + "/model", global_step=step)
        sess.run(done)
