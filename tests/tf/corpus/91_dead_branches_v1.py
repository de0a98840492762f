# SPDX-License-Identifier: Apache-2.0
# cluster: w2     shape errors in branches that are not taken, Switch and Merge: nested, in loops, on another task, behind an Assert; tf.metrics.auc
from _common import *
from tensorflow.python.ops import weights_broadcast_ops
v1()
k = tf.placeholder(tf.bool, []); j = tf.placeholder(tf.bool, [])
p = tf.placeholder(tf.float32); q = tf.placeholder(tf.float32); m = tf.placeholder(tf.float32)
FAR = "/job:worker/task:1"


def far(fn):
    def on():
        with tf.device(FAR): return fn()
    return on


BAD = {"reshape": lambda: tf.reshape(p, [7]), "add": lambda: p + q, "concat": lambda: tf.concat([p, m], 0),
       "squeeze": lambda: tf.squeeze(m, [0]), "transpose": lambda: tf.transpose(p, [1, 0]),
       "matmul": lambda: tf.matmul(p, m), "shape": lambda: tf.reshape(p, tf.shape(m)) + tf.reshape(p, [3]),
       "gather": lambda: tf.gather(p, tf.shape(m)[0] + 5), "twice": lambda: tf.reshape(tf.reshape(p, tf.shape(m)), tf.shape(p)),
       "value": lambda: p + tf.cast(tf.gather(tf.shape(p), 3), tf.float32),
       "bias": lambda: tf.nn.bias_add(m, p[:1]), "big": lambda: tf.reshape(tf.fill(tf.shape(p) * 1500000000, 1.), [4])}
where = {"here": lambda f: f, "far": far}
conds = {"%s_%s" % (n, w): tf.cond(k, where[w](f), where[w](lambda: p * 2.)) for n, f in BAD.items() for w in where}
nested = tf.cond(k, lambda: tf.cond(j, BAD["matmul"], lambda: p + 1.), lambda: tf.cond(j, lambda: p - 1., BAD["add"]))
loop = tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, tf.cond(tf.less(i, 9), lambda: a * 2., lambda: tf.reshape(a, [7]))),
                     [0, p], shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])[1]
never = tf.while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, tf.matmul(a, m)), [0, p],
                      shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])[1]
far_loop = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.cond(k, far(lambda: a + q), far(lambda: a * 2.))),
                         [0, p], shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])[1]
with tf.control_dependencies([tf.Assert(tf.equal(tf.size(p), tf.size(q)), ["sizes differ"])]): checked = p + q
grad = tf.gradients(tf.cond(k, BAD["add"], lambda: p * p), p)[0]
auc, update = tf.metrics.auc(tf.placeholder(tf.float32, name="l"), tf.placeholder(tf.float32, name="s"))
mse = tf.losses.mean_squared_error(tf.placeholder(tf.float32, [None, 1], name="y"), tf.placeholder(tf.float32, name="o"))
feed = {k: False, j: True, p: [1., 2.], q: [1., 2., 3.], m: [[1., 2., 3.]] * 4}
with tf.Session(TARGET) as s:
    R = {"dead_" + n: s.run(c, feed) for n, c in conds.items()}
    taken = {"taken_" + n: err(lambda c=c: s.run(c, {**feed, k: True})) for n, c in conds.items() if not n.startswith(("big", "twice"))}
    R.update({n: r["error"] for n, r in taken.items()})
    R["nested"] = [s.run(nested, feed), s.run(nested, {**feed, k: True, j: False}),
                   err(lambda: s.run(nested, {**feed, k: True}))["error"], err(lambda: s.run(nested, {**feed, j: False}))["error"]]
    R["loops"] = s.run([loop, never, far_loop], feed)
    R["far_loop"] = err(lambda: s.run(far_loop, {**feed, k: True}))["error"]
    R["grad"] = s.run(grad, feed)
    R["assert"] = err(lambda: s.run(checked, feed), "sizes differ")["has"]
    s.run(tf.local_variables_initializer())
    R["auc"] = s.run([update, auc], {"l:0": [0., 0., 1., 1.], "s:0": [.1, .4, .35, .8]})[0]
    R["mse"] = s.run(mse, {"y:0": [[1.], [2.]], "o:0": [[1.5], [1.]]})
emit(**R)
