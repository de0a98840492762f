# SPDX-License-Identifier: Apache-2.0
# cluster: w2     two masters, one asked by a callable (whose collective_graph_key does not count), the other by run(); and a source that is faster than who receives
import threading, time
from _common import *
v2()
from tensorflow.python.ops import collective_ops
from tensorflow.core.protobuf import config_pb2
answers, errors = [None, None], []
def client(i):
    with tf.Graph().as_default(), tf.device("/job:worker/task:%d" % i):
        x = tf.placeholder(tf.float32, [])
        both = collective_ops.all_reduce(tf.fill([3], x), 2, 1, 1, "Add", "Id")
        cast = collective_ops.broadcast_send(x, [], tf.float32, 2, 1, 2) if i == 0 else collective_ops.broadcast_recv([], tf.float32, 2, 1, 2)
        cfg = tf.ConfigProto(device_filters=["/job:worker/task:%d" % i], operation_timeout_in_ms=20000)
        cfg.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
        options = tf.RunOptions()
        options.experimental.collective_graph_key = 77
        with tf.Session("grpc://" + CLUSTER["worker"][i], config=cfg) as s:
            if i == 0:
                by_number = s._make_callable_from_options(config_pb2.CallableOptions(feed=[x.name], fetch=[both.name], run_options=options))
                sums = [by_number(np.float32(k))[0] for k in range(5)]
            else:
                sums = [s.run(both, {x: 10. * k}) for k in range(5)]
            casts = []
            for k in range(5):
                time.sleep(.05 * i)
                casts.append(s.run(cast, {x: 3. * k} if i == 0 else {}))
            answers[i] = [sums, casts]
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
emit(sums=[a[0] for a in answers], casts=[a[1] for a in answers])
