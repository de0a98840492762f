# SPDX-License-Identifier: Apache-2.0
# cluster: w2     each worker has a client and a master of its own: the same steps, averaged gradients (CollectiveReduce) and first weights (CollectiveBcast)
import threading
from _common import *
v2()
from tensorflow.python.ops import collective_ops
answers, errors = [None, None], []
def client(i):
    with tf.Graph().as_default(), tf.device("/job:worker/task:%d" % i):
        w = tf.Variable(np.full(40, 1. + i, np.float32), use_resource=True)
        x = tf.placeholder(tf.float32, [None, 40])
        first = collective_ops.broadcast_send(w.read_value(), [40], tf.float32, 2, 1, 1) if i == 0 else collective_ops.broadcast_recv([40], tf.float32, 2, 1, 1)
        begin = w.assign(first).op
        mean = collective_ops.all_reduce(tf.reduce_mean(x * w, 0), 2, 1, 2, "Add", "Div")
        most = collective_ops.all_reduce(tf.reduce_max(x), 2, 1, 3, "Max", "Id")
        with tf.control_dependencies([mean]):
            step = w.assign_sub(.1 * mean)
        cfg = tf.ConfigProto(device_filters=["/job:worker/task:%d" % i], operation_timeout_in_ms=60000)
        cfg.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
        with tf.Session("grpc://" + CLUSTER["worker"][i], config=cfg) as s:
            s.run(w.initializer)
            s.run(begin)
            rng = np.random.RandomState(i)
            seen = [s.run([step, most], {x: rng.randn(3 + i, 40)})[1] for _ in range(10)]
            answers[i] = [s.run(w), seen]
def guarded(i):
    try:
        client(i)
    except Exception as e:
        errors.append(e)
threads = [threading.Thread(target=guarded, args=(i,)) for i in range(2)]
[t.start() for t in threads]
[t.join() for t in threads]
if errors:
    raise errors[0]
emit(weights=[a[0] for a in answers], most=[a[1] for a in answers])
