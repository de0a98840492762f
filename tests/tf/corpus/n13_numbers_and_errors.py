# SPDX-License-Identifier: Apache-2.0
# cluster: ps1w1     Print, Assert and check_numerics that fail and are caught; half, bfloat16, complex, sparse, quantised and image ops; own gradients
# tol: 0.002
from _common import *
v1(); R = {}
with tf.device(tf.train.replica_device_setter(cluster=tf.train.ClusterSpec(CLUSTER))):
    x = tf.placeholder(tf.float32, [None, 3], "x"); w = tf.get_variable("w", initializer=rnd((3, 3), 1)); count = tf.get_variable("count", initializer=0, trainable=False)
    printed = tf.Print(x, [tf.shape(x)], "shape: "); safe = tf.check_numerics(tf.log(printed), "log of x")
    with tf.control_dependencies([tf.Assert(tf.reduce_all(x < 100), [x], name="small"), tf.assert_rank(x, 2), tf.assert_equal(tf.shape(x)[0] % 2, 0, message="even rows")]): checked = tf.identity(tf.matmul(x, w))
    with tf.control_dependencies([checked]): counted = tf.assign_add(count, 1)
    sp = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], [1., 2., 3.], [2, 3]); prod = tf.sparse_tensor_dense_matmul(sp, w); sg = tf.gradients(prod, w)[0]; back = tf.sparse_tensor_dense_matmul(sp, prod, adjoint_a=True)
    spd = tf.sparse.reduce_sum(tf.sparse.add(sp, tf.sparse.reorder(tf.SparseTensor([[1, 2], [0, 0]], [4., 5.], [2, 3]))), 1); soft = tf.sparse.to_dense(tf.sparse.softmax(sp)); cut = tf.sparse.to_dense(tf.sparse.slice(sp, [0, 1], [2, 2]))
    @tf.custom_gradient
    def clipped(v): return tf.identity(v), lambda d: tf.clip_by_norm(d, .5)
    own = tf.gradients(tf.reduce_sum(clipped(tf.square(x)) * 3), x)[0]; fq = tf.quantization.fake_quant_with_min_max_vars(x, -1., 2., num_bits=4); fqg = tf.gradients(fq, x)[0]
    q, lo, hi = tf.quantization.quantize(x, -1., 3., tf.quint8); dq = tf.quantization.dequantize(q, lo, hi)
    half, bf = tf.matmul(tf.cast(x, tf.float16), tf.cast(w, tf.float16)), tf.reduce_sum(tf.cast(x, tf.bfloat16) * 1.5, 1); c = tf.complex(x, x * 2); spec = tf.signal.fft(c); cm = tf.matmul(c, c, adjoint_b=True); cg = tf.gradients(tf.real(spec * tf.conj(spec)), x)[0]
    img = tf.reshape(tf.linspace(0., 1., 48), [1, 4, 4, 3]); images = [tf.image.resize_bilinear(img, [3, 5]), tf.image.resize_nearest_neighbor(img, [2, 2]), tf.image.rgb_to_hsv(img), tf.image.adjust_contrast(img, 2.), tf.image.crop_and_resize(img, [[0., 0., .5, .7]], [0], [2, 2]), tf.image.per_image_standardization(img[0])]
    png = tf.image.decode_png(tf.image.encode_png(tf.cast(img[0] * 255, tf.uint8)))
    lin = [tf.linalg.inv(w), tf.linalg.det(w), tf.linalg.cholesky(tf.matmul(w, w, transpose_b=True) + tf.eye(3)), tf.linalg.solve(w, tf.eye(3))]; scatter = tf.tensor_scatter_nd_update(w, [[0], [2]], [[1., 2., 3.], [4., 5., 6.]]); seg = tf.math.unsorted_segment_mean(w, [1, 1, 0], 3); topk = tf.nn.top_k(w, 2)
good = [[1., 2., .5], [.25, 1., 1.5]]
with tf.Session(TARGET) as s:
    s.run(tf.global_variables_initializer()); f = {x: good}
    R["safe"] = s.run(safe, f); R["checked"] = s.run([checked, counted], f)
    R["errors"] = [err(lambda: s.run(safe, {x: [[-1.] * 3]}), "log of x", "NaN"), err(lambda: s.run([checked, counted], {x: [[200.] * 3] * 2}), "200"), err(lambda: s.run(checked, {x: [[1.] * 3]}), "even rows"), err(lambda: s.run(tf.linalg.inv(tf.zeros([2, 2]))), "not invertible"),
        err(lambda: s.run(tf.gather([1, 2], x[0, 0] > 0 and 5 if False else tf.cast(x[0, 0] * 7, tf.int32)), f), "indices"), err(lambda: s.run(tf.reshape(x, [-1, 4]), f), "reshape", "multiple of"), err(lambda: s.run(tf.get_variable("never", [2])), "uninitialized")]
    R["count"] = s.run(count)
    R["sparse"] = s.run([prod, sg, back, spd, soft, cut], f); R["own"] = s.run([own, fq, fqg, dq], f); R["types"] = s.run([tf.cast(half, tf.float32), tf.cast(bf, tf.float32), spec, cm, cg], f); R["images"] = s.run(images + [png]); R["linear"] = s.run(lin + [scatter, seg, topk.values, topk.indices])
emit(**R)
