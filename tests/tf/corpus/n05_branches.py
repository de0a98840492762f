# SPDX-License-Identifier: Apache-2.0
# cluster: worker1     tf.case (exclusive or not), switch_case, nested cond; assertions that a call, a branch or a loop waits for
from _common import *
v1(); R = {}
def tryit(s, f, d):
    try: return s.run(f, d)
    except tf.errors.OpError as e: return [type(e).__name__, "more than 1 conditions" in e.message, "None of conditions" in e.message]
def program():
    x, k = tf.placeholder(tf.float32, [], "x"), tf.placeholder(tf.int32, [], "k"); f, g, h = lambda: x * 2, lambda: x + 7, lambda: -x
    checked = lambda: tf.debugging.Assert(x > -10, ["x is too small", x])
    double = tf.function(lambda v: v * 2); same = tf.function(lambda v: v)
    with tf.control_dependencies([checked()]): called, passed, branch = double(x), same(x), tf.cond(k > 0, f, g)
    with tf.control_dependencies([checked()]): loop = tf.while_loop(lambda i, v: i < k, lambda i, v: (i + 1, v * 2), [0, x])[1]; one = tf.switch_case(k, [f])
    return x, k, dict(
        exclusive=tf.case([(x > 0, f), (x > 1, g)], default=h, exclusive=True), first=tf.case([(x > 0, f), (x > 1, g)], default=h),
        none=tf.case([(x > 0, f), (x > 1, g)], exclusive=True), switch=tf.switch_case(k, [f, g, h]), switch_default=tf.switch_case(k, {0: f, 1: g}, default=h),
        nested=tf.cond(x > 0, lambda: tf.cond(k > 0, f, g), lambda: tf.switch_case(k, [h, f])), grad=tf.gradients(tf.switch_case(k, [f, lambda: x * x * x, h]), x)[0],
        called=called, passed=passed, branch=branch, loop=loop, one=one,
        deep=tf.case([(x < 0, lambda: tf.case([(k < 0, f)], default=g)), (x > 5, lambda: tf.while_loop(lambda v: v > 1, lambda v: v / 2, [x]))], default=h))
for kind in ("v1", "v2"):
    (tf.enable_control_flow_v2 if kind == "v2" else tf.disable_control_flow_v2)()
    with tf.Graph().as_default():
        x, k, outs = program()
        with tf.Session(TARGET) as s: R[kind] = {n: [tryit(s, o, {x: a, k: b}) for a, b in ((2., 0), (.5, 1), (-3., 2), (9., -1), (-20., 1))] for n, o in sorted(outs.items())}
emit(**R)
