# SPDX-License-Identifier: Apache-2.0
# cluster: ps1w2     partial runs over a parameter server and two workers: interleaved, given up, with an error on the parameter server
from _common import *
v1(); R = {}
with tf.device("/job:ps"):
    w = tf.get_variable("w", initializer=rnd((3, 3), 1)); count = tf.get_variable("count", initializer=0.); row = tf.placeholder(tf.int32, [], "row"); picked = tf.gather(w, row)
with tf.device("/job:worker/task:1"):
    a, b, c = [tf.placeholder(tf.float32, [None, 3], n) for n in "abc"]; ab = tf.matmul(a, w) + b
with tf.device("/job:worker/task:0"): abc = ab * c; total = tf.reduce_sum(abc)
with tf.device("/job:ps"): add = tf.assign_add(count, total); doubled = ab * 2; late = tf.reduce_sum(doubled) + tf.reduce_sum(picked)
v = rnd((2, 3), 2)
with tf.Session(TARGET) as s, tf.Session(target("worker", 1)) as t:
    s.run(tf.global_variables_initializer())
    for k, u in (("first", s), ("second", t)):
        h = u.partial_run_setup([ab, doubled, abc, total, add], [a, b, c]); R[k] = [u.partial_run(h, [ab, doubled], {a: v, b: v}), u.partial_run(h, [abc, total, add], {c: v})]
    one, two = s.partial_run_setup([ab, late, add], [a, b, c, row]), t.partial_run_setup([doubled, add], [a, b, c])
    R["turns"] = [t.partial_run(two, doubled, {a: v, b: v}), s.partial_run(one, ab, {a: v, b: v * 0}), t.partial_run(two, add, {c: v}), s.partial_run(one, late, {row: 1}), s.partial_run(one, add, {c: v})]
    bad = s.partial_run_setup([ab, picked], [a, b, row]); R["before"] = s.partial_run(bad, ab, {a: v, b: v}); R["bad"] = err(lambda: s.partial_run(bad, picked, {row: 7}), "7", "[0, 3)"); R["unfed"] = err(lambda: s.partial_run(s.partial_run_setup([ab], [a, b]), ab, {a: v}), "fed")
    given_up = t.partial_run_setup([doubled, add], [a, b, c]); R["given_up"] = t.partial_run(given_up, doubled, {a: v, b: v}); R["count"] = s.run(count); R["still"] = s.run(total, {a: v, b: v, c: v})
with tf.Session(TARGET) as s: R["after"] = s.run([count, total], {a: v, b: v, c: v})
emit(**R)
