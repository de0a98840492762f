# SPDX-License-Identifier: Apache-2.0
# cluster: ps1w2     synchronous SGD over an embedding: SyncReplicasOptimizer with sparse gradients, a partitioned shape and SparseConditionalAccumulator of any shape
from _common import *
import threading
v1()
ids = np.array([[0, 2], [2, 5], [1, 2], [5, 5]], np.int64); y = np.array([[1.], [2.], [0.], [3.]], np.float32)
table = rnd([6, 3], 4)
res = {}; bar = threading.Barrier(2); chief_up = threading.Event()


def worker(i):
    g = tf.Graph()
    with g.as_default():
        with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % i, cluster=tf.train.ClusterSpec(CLUSTER))):
            ip, yp = tf.placeholder(tf.int64, [None, 2]), tf.placeholder(tf.float32, [None, 1])
            e = tf.get_variable("e", initializer=table, use_resource=False)
            w = tf.get_variable("w", initializer=np.ones((3, 1), np.float32), use_resource=False)
            x = tf.reduce_mean(tf.nn.embedding_lookup(e, ip), 1)
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - yp))
            gs = tf.train.get_or_create_global_step()
            opt = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), replicas_to_aggregate=2, total_num_replicas=2)
            train = opt.minimize(loss, global_step=gs)
        if i: chief_up.wait()
        hook = opt.make_session_run_hook(i == 0, num_tokens=0)
        with tf.train.MonitoredTrainingSession(target("worker", i), is_chief=(i == 0), hooks=[hook], config=tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % i]), save_checkpoint_secs=None, save_summaries_steps=None, log_step_count_steps=None, max_wait_secs=60, stop_grace_period_secs=1) as s:
            chief_up.set(); bar.wait()
            for k in range(4):
                bar.wait()
                s.run(train, {ip: ids[2 * i:2 * i + 2], yp: y[2 * i:2 * i + 2]})
            bar.wait()
            if i == 1: res["e"], res["w"], res["gs"] = s._tf_sess().run([e, w, gs])
            bar.wait()


ts = [threading.Thread(target=worker, args=(i,)) for i in range(2)]
[t.start() for t in ts]; [t.join() for t in ts]
with tf.Graph().as_default(), tf.device("/job:ps/task:0"), tf.Session(target("worker", 0)) as s:
    R = {}
    for name, shape in (("any", []), ("unknown", None), ("prefix", [6]), ("partly", [None, 3]), ("full", [6, 3]), ("wrong", [5, 2]), ("long", [6, 3, 1])):
        acc = tf.SparseConditionalAccumulator(tf.float32, shape=shape, shared_name=name)
        apply = acc.apply_indexed_slices_grad(tf.IndexedSlices(tf.ones([2, 3]), tf.constant([1, 4], tf.int64), tf.constant([6, 3], tf.int64)))
        R[name] = err(lambda: s.run(apply), "Shape mismatch")
        if not R[name]["error"]: R[name] = s.run(acc.take_indexed_slices_grad(1))
emit(global_step=int(res["gs"]), e=res["e"], w=res["w"], accumulators=R)
