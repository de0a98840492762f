# SPDX-License-Identifier: Apache-2.0
# cluster: local1     elementwise math, comparison, logic, casts
from _common import *
v1()
x = tf.placeholder(tf.float32, [None]); y = tf.placeholder(tf.float32, [None]); i = tf.placeholder(tf.int32, [None]); j = tf.placeholder(tf.int32, [None]); b = tf.placeholder(tf.bool, [None])
xv = np.array([-2.5, -1., -.5, .25, 1., 3.], np.float32); yv = np.array([2., 3., .5, 2., -1., 1.5], np.float32)
iv = np.array([-7, 5, 9, 0, 3, 12], np.int32); jv = np.array([2, -3, 4, 5, 3, 5], np.int32); bv = np.array([1, 0, 1, 1, 0, 0], bool)
U = {n: getattr(tf, n)(x) for n in ["abs", "negative", "sign", "square", "exp", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "erf", "floor", "ceil", "round", "rint", "sigmoid", "is_nan", "is_finite", "is_inf"]}
ax = tf.abs(x)
U.update({n: getattr(tf, n)(ax) for n in ["sqrt", "rsqrt", "log", "log1p", "reciprocal", "lgamma", "digamma", "acosh"] if hasattr(tf, n)})
U["inv_trig"] = [tf.asin(x / 4.), tf.acos(x / 4.), tf.atanh(x / 4.)]
U.update(relu=tf.nn.relu(x), relu6=tf.nn.relu6(x), elu=tf.nn.elu(x), selu=tf.nn.selu(x), softplus=tf.nn.softplus(x), softsign=tf.nn.softsign(x), leaky=tf.nn.leaky_relu(x, 0.1), log_sigmoid=tf.log_sigmoid(x), erfc=tf.math.erfc(x), swish=tf.nn.swish(x))
B = {n: getattr(tf, n)(x, y) for n in ["add", "subtract", "multiply", "divide", "maximum", "minimum", "squared_difference", "floordiv", "floormod", "greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "atan2", "truediv"]}
B.update(pow=tf.pow(ax, y), divnn=tf.div_no_nan(x, tf.zeros_like(y)), xlogy=tf.math.xlogy(ax, ax), mod=tf.mod(x, y), realdiv=tf.realdiv(x, y), truncmod=tf.truncatemod(i, j), truncdiv=tf.truncatediv(i, j))
I = {n: getattr(tf, n)(i, j) for n in ["add", "subtract", "multiply", "floordiv", "floormod", "maximum", "minimum", "greater", "equal"]}
I.update(band=tf.bitwise.bitwise_and(i, j), bor=tf.bitwise.bitwise_or(i, j), bxor=tf.bitwise.bitwise_xor(i, j), inv=tf.bitwise.invert(i), shl=tf.bitwise.left_shift(tf.abs(i), 2), shr=tf.bitwise.right_shift(tf.abs(i), 1))
L = dict(land=tf.logical_and(b, x > 0.), lor=tf.logical_or(b, x > 0.), lnot=tf.logical_not(b), lxor=tf.logical_xor(b, x > 0.), where=tf.where(b, x, y), wherev2=tf.where_v2(b, x, 0.), where1=tf.where(b))
C = dict(f2i=tf.cast(x, tf.int32), i2f=tf.cast(i, tf.float32), f2h=tf.cast(tf.cast(x, tf.float16), tf.float32), f2b=tf.cast(tf.cast(x, tf.bfloat16), tf.float32), b2f=tf.cast(b, tf.float32), f2bool=tf.cast(x, tf.bool), i2l=tf.cast(i, tf.int64), sat=tf.saturate_cast(x * 200., tf.uint8), d=tf.cast(x, tf.float64), bc=tf.bitcast(x, tf.int32))
M = dict(addn=tf.add_n([x, y, x]), cumsum=tf.cumsum(x), cumsum_ex=tf.cumsum(x, exclusive=True, reverse=True), cumprod=tf.cumprod(x), clip=tf.clip_by_value(x, -1., 1.), lin=tf.linspace(0., 1., 5), rng=tf.range(2, 11, 3), bcast=x[:, None] * y[None, :3], betainc=tf.betainc(ax[:3], ax[1:4], tf.constant([.1, .5, .9])), cross=tf.linalg.cross(x[:3], y[:3]), complexabs=tf.abs(tf.complex(x, y)), polyg=tf.math.polygamma(tf.constant([1., 2.]), tf.constant([1.5, 2.5])))
with tf.Session(TARGET) as s:
    emit(**s.run(dict(U=U, B=B, I=I, L=L, C=C, M=M), {x: xv, y: yv, i: iv, j: jv, b: bv}))
