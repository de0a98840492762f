# SPDX-License-Identifier: Apache-2.0
# cluster: ps1w2     a reference variable is read on another task after an assign whose value comes from a third one; in branches, in loops, before a later assign
from _common import *
v1()
PS, NEAR, FAR = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"
with tf.device(PS):
    v = tf.get_variable("v", [2], initializer=tf.zeros_initializer(), use_resource=False)
    n = tf.get_variable("n", [], initializer=tf.zeros_initializer(), use_resource=False)
p = tf.placeholder(tf.float32, [2]); k = tf.placeholder(tf.bool, [])
with tf.device(FAR): value = tf.sqrt(tf.exp(p)) * 2.


def read(var, after, device=NEAR):
    with tf.device(device), tf.control_dependencies(after): return var.read_value()


with tf.device(PS): assign = tf.assign(v, value)
after_assign = read(v, [assign])
far_read = read(v, [assign], FAR)
first = read(v, [])
with tf.control_dependencies([first]), tf.device(PS): later = tf.assign_add(v, [10., 10.])
second = read(v, [later], FAR)
with tf.device(FAR): plain = tf.raw_ops.Identity(input=v._ref())
branch = tf.cond(k, lambda: read(v, [tf.assign(v, value * 3.)], FAR), lambda: read(v, [], FAR))


def body(i, seen):
    with tf.device(PS): count = tf.assign_add(n, tf.cast(i, tf.float32) + value[0] * 0.)
    return i + 1, seen * 10. + read(n, [count], FAR)


loop = tf.while_loop(lambda i, s: i < 5, body, [1, 0.], parallel_iterations=1)[1]
with tf.Session(TARGET) as s:
    R = {}
    for turn in range(5):
        s.run(tf.global_variables_initializer())
        feed = {p: [turn, turn + 1.], k: True}
        R["assign%d" % turn] = s.run(after_assign, feed)
        s.run(v.initializer)
        R["both%d" % turn] = s.run([after_assign, far_read], feed)
        R["order%d" % turn] = s.run([first, second])
        R["branch%d" % turn] = [s.run(branch, feed), s.run(branch, {**feed, k: False})]
        R["loop%d" % turn] = s.run(loop, feed)
        R["plain%d" % turn] = s.run(plain)
emit(**R)
