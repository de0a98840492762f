# SPDX-License-Identifier: Apache-2.0
# cluster: ps1w2     gradients of two workers collected by ConditionalAccumulators and a token queue of the program's own; stale ones dropped
from _common import *
v1(); R = {}
x, y = data()
def build(worker):
    with tf.device("/job:ps/task:0"):
        w = tf.get_variable("w", initializer=np.zeros((4, 1), np.float32)); step = tf.get_variable("step", initializer=np.int64(0), trainable=False)
        acc = tf.ConditionalAccumulator(tf.float32, [4, 1], shared_name="acc", reduction_type="MEAN"); sums = tf.ConditionalAccumulator(tf.float32, [], shared_name="sums", reduction_type="SUM")
        rows = tf.SparseConditionalAccumulator(tf.float32, [4, 1], shared_name="rows"); tokens = tf.FIFOQueue(-1, tf.int64, [[]], shared_name="tokens", name="tokens")
    with tf.device("/job:worker/task:%d" % worker):
        xp, yp, at = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1]), tf.placeholder(tf.int64, [])
        loss = tf.reduce_mean(tf.square(tf.matmul(xp, w) - yp)); g = tf.gradients(loss, w)[0]
        push = tf.group(acc.apply_grad(g, at), sums.apply_grad(loss, at), rows.apply_grad(tf.to_int64([worker, 3]), tf.gather(g, [worker, 3]), tf.to_int64([4, 1]), at))
    with tf.device("/job:ps/task:0"):
        mean, total, sparse = acc.take_grad(2), sums.take_grad(2), rows.take_indexed_slices_grad(2)
        update = tf.train.GradientDescentOptimizer(.1).apply_gradients([(mean, w)], step)
        with tf.control_dependencies([update, total, sparse.values]):
            new = tf.identity(step.read_value() if hasattr(step, "read_value") else step)
            after = tf.group(acc.set_global_step(new), sums.set_global_step(new), rows.set_global_step(new), tokens.enqueue_many([tf.fill([2], new)]))
    return dict(xp=xp, yp=yp, at=at, push=push, total=total, sparse=sparse, after=after, token=tokens.dequeue(), w=w, step=step, counts=[acc.num_accumulated(), sums.num_accumulated(), rows.num_accumulated()], init=tf.global_variables_initializer())
g = [tf.Graph(), tf.Graph()]; p = []
for i in range(2):
    with g[i].as_default(): p.append(build(i))
with tf.Session(target("worker", 0), graph=g[0]) as a, tf.Session(target("worker", 1), graph=g[1]) as b:
    a.run(p[0]["init"]); s, at, out = [a, b], [0, 0], []
    for turn in range(4):
        for i in range(2): s[i].run(p[i]["push"], {p[i]["xp"]: x[8 * i:8 * i + 8], p[i]["yp"]: y[8 * i:8 * i + 8], p[i]["at"]: at[i]})
        row = a.run([p[0]["total"], p[0]["sparse"].indices, p[0]["sparse"].values, p[0]["after"]])[:3]; at = [s[i].run(p[i]["token"]) for i in range(2)]; out.append(row + at)
    R["turns"] = out; R["w"] = b.run(p[1]["w"]); b.run(p[1]["push"], {p[1]["xp"]: x, p[1]["yp"]: y, p[1]["at"]: 1}); R["stale"] = a.run(p[0]["counts"])
    R["waits"] = err(lambda: a.run(p[0]["token"], options=tf.RunOptions(timeout_in_ms=300)))
emit(**R)
