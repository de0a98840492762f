# SPDX-License-Identifier: Apache-2.0
# cluster: ps1w2     QueueRunners and a Coordinator: one worker fills a shared queue, the other takes batches out, until it is closed
from _common import *
import threading
v1(); R = {}
def shared():
    with tf.device("/job:ps/task:0"): return tf.FIFOQueue(6, [tf.int64, tf.float32], [[], [2]], shared_name="work", name="work"), tf.FIFOQueue(10, tf.float32, [[]], shared_name="answers", name="answers"), tf.get_variable("seen", initializer=tf.zeros([], tf.int64), trainable=False)
first, second = tf.Graph(), tf.Graph()
with first.as_default():
    with tf.device("/job:worker/task:0"):
        work, answers, seen = shared(); ids = tf.train.range_input_producer(12, num_epochs=1, shuffle=False, capacity=4).dequeue(); row = tf.stack([tf.cast(ids, tf.float32), tf.sqrt(tf.cast(ids, tf.float32))])
        tf.train.add_queue_runner(tf.train.QueueRunner(work, [work.enqueue([tf.cast(ids, tf.int64), row])] * 2)); collected = answers.dequeue_many(3); size = work.size()
    init = [tf.global_variables_initializer(), tf.local_variables_initializer()]
with second.as_default():
    with tf.device("/job:worker/task:1"):
        work, answers2, seen2 = shared(); number, row2 = work.dequeue_up_to(5); n = tf.shape(number)[0]
        with tf.control_dependencies([tf.assign_add(seen2, tf.cast(n, tf.int64))]): give = answers2.enqueue([tf.reduce_sum(row2[:, 0])])
        batch = tf.train.batch([tf.train.slice_input_producer([tf.range(7)], num_epochs=1, shuffle=False)[0]], 3, allow_smaller_final_batch=True)
    init2 = tf.local_variables_initializer()
with tf.Session(target("worker", 0), graph=first) as s, tf.Session(target("worker", 1), graph=second) as s2:
    s.run(init); s2.run(init2); coord = tf.train.Coordinator()
    with first.as_default(): threads = tf.train.start_queue_runners(s, coord)
    got = []
    def consume():
        while True:
            try: got.extend(int(i) for i in s2.run([number, give])[0]) if False else got.append(s2.run([n, give])[0])
            except tf.errors.OutOfRangeError: return
    t = threading.Thread(target=consume); t.start(); t.join(60); R["stuck"] = t.is_alive()
    coord.request_stop(); coord.join(threads, stop_grace_period_secs=30)
    R["seen"] = s.run(seen); R["items"] = int(sum(got)); total = 0.
    while s.run(answers.size()): total += s.run(answers.dequeue())
    R["total"] = total; R["left"] = s.run(size); R["closed"] = err(lambda: s2.run(number), "closed", "insufficient")
    coord2 = tf.train.Coordinator(); out = []
    with second.as_default(): threads = tf.train.start_queue_runners(s2, coord2)
    try:
        while not coord2.should_stop(): out.append(s2.run(batch))
    except tf.errors.OutOfRangeError: R["batches"] = out
    coord2.request_stop(); coord2.join(threads, stop_grace_period_secs=30)
    blocked = threading.Thread(target=lambda: R.update(cancelled=err(lambda: s.run(collected)))); blocked.start()
    s2.run(answers2.close(cancel_pending_enqueues=True)); blocked.join(60)
emit(**R)
