# SPDX-License-Identifier: Apache-2.0
"""Ops whose inputs cannot be written as samples (image files, serialized tensors), in small graphs that both sides run:
each function builds one and returns its fetches."""
GRAPHS = {}


def graph(fn):
    """Register a graph; it is called with the tensorflow module, so that listing needs no import."""
    GRAPHS[fn.__name__] = fn
    return fn


def picture(tf, channels, high=19, wide=23, dtype="uint8"):
    import numpy as np
    y, x, c = np.mgrid[:high, :wide, :channels]
    values = 127 + 90 * np.sin(y * 0.3 + c) + 37 * np.cos(x * 0.41 - 2 * c)
    if dtype == "uint16":
        values = values * 257 - 40
    return tf.constant(values.astype(dtype))


@graph
def png(tf):
    raw = tf.raw_ops
    out = []
    for channels in (1, 2, 3, 4):
        file = raw.EncodePng(image=picture(tf, channels))
        out += [raw.DecodePng(contents=file, channels=n) for n in (0, 1, 3, 4)]
        out += [raw.DecodePng(contents=file, dtype=tf.uint16),
                raw.DecodeImage(contents=file, dtype=tf.float32)]
    wide = raw.EncodePng(image=picture(tf, 3, dtype="uint16"), compression=9)
    out += [raw.DecodePng(contents=wide, dtype=tf.uint16), raw.DecodePng(contents=wide),
            raw.DecodeImage(contents=wide, dtype=tf.float32)]
    return out


@graph
def jpeg(tf):
    raw = tf.raw_ops
    out = []
    for channels in (1, 3):
        for options in (dict(), dict(quality=60), dict(progressive=True), dict(optimize_size=True),
                        dict(chroma_downsampling=False)):
            file = raw.EncodeJpeg(image=picture(tf, channels), **options)
            out += [raw.DecodeJpeg(contents=file), raw.ExtractJpegShape(contents=file)]
        out += [raw.DecodeJpeg(contents=file, channels=n) for n in (1, 3)]
        out += [raw.DecodeJpeg(contents=file, ratio=n) for n in (2, 4, 8)]
        out += [raw.DecodeJpeg(contents=file, fancy_upscaling=False),
                raw.DecodeJpeg(contents=file, dct_method="INTEGER_ACCURATE"),
                raw.DecodeImage(contents=file, dtype=tf.float32),
                raw.DecodeImage(contents=file, dtype=tf.uint16)]
    file = raw.EncodeJpegVariableQuality(images=picture(tf, 3), quality=30)
    return out + [raw.DecodeImage(contents=file, expand_animations=False)]


def bmp_file(channels, up):
    import struct
    high, wide = 5, 7
    row = (wide * channels + 3) // 4 * 4
    pixels = bytes((y * 50 + x * 3) % 256 for y in range(high) for x in range(row))
    return b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54 + len(pixels), 0, 0, 54, 40, wide,
                               high if up else -high, 1, 8 * channels, 0, len(pixels), 0, 0, 0, 0) + pixels


@graph
def bmp(tf):
    files = [tf.constant(bmp_file(c, up)) for c in (1, 3, 4) for up in (True, False)]
    return [tf.raw_ops.DecodeBmp(contents=f) for f in files] + [
        tf.raw_ops.DecodeImage(contents=f, expand_animations=False) for f in files]


@graph
def serialized_sparse(tf):
    raw = tf.raw_ops
    i64 = lambda x: tf.constant(x, tf.int64)
    index, shape = i64([[0, 1], [0, 3], [2, 0], [2, 2]]), i64([3, 4])
    out = []
    for values in ([1.5, 2., -3., 4.], [1, 2, 3, 4], ["a", "", "bc", "d" * 300]):
        values = tf.constant(values)
        one = raw.SerializeSparse(sparse_indices=index, sparse_values=values, sparse_shape=shape)
        many = raw.SerializeManySparse(sparse_indices=index, sparse_values=values, sparse_shape=shape)
        other = raw.SerializeSparse(sparse_indices=i64([[1, 1]]), sparse_values=values[:1],
                                    sparse_shape=i64([7, 2]))
        pairs = tf.stack([tf.stack([one, other]), tf.stack([other, other])])
        if values.dtype != tf.string:  # TensorFlow packs them in another way, and reads ours
            out += [one, many]
        for files in (one, many, tf.stack([one, other]), pairs, many[1:2]):
            out += list(raw.DeserializeSparse(serialized_sparse=files, dtype=values.dtype))
        out += list(raw.DeserializeManySparse(serialized_sparse=many, dtype=values.dtype))
        variants = [raw.SerializeSparse(sparse_indices=index, sparse_values=values, sparse_shape=shape,
                                        out_type=tf.variant) for _ in range(2)]
        for files in (variants[0], tf.stack(variants),
                      raw.SerializeManySparse(sparse_indices=index, sparse_values=values,
                                              sparse_shape=shape, out_type=tf.variant)):
            out += list(raw.DeserializeSparse(serialized_sparse=files, dtype=values.dtype))
    packed = b'\x08\x07\x12\x04\x12\x02\x08\x04"\x08\x01\x00\x02\x01abcd'  # by TensorFlow
    return out + list(raw.DeserializeSparse(serialized_sparse=tf.stack([one[0], packed, one[2]]),
                                            dtype=tf.string))


@graph
def symbolic_gradient(tf):
    from tensorflow.python.framework import function

    @function.Defun(tf.float32, tf.float32, func_name="F")
    def f(a, b):
        return tf.sin(a) * b, tf.reduce_sum(a * a)

    @function.Defun(tf.float32, func_name="G")
    def g(a):
        return f(a, tf.exp(a))[0]

    @function.Defun(tf.float32, tf.float32, tf.float32, func_name="DH")
    def dh(a, b, dy):
        return dy * 100., dy * b

    @function.Defun(tf.float32, tf.float32, func_name="H", grad_func=dh)
    def h(a, b):
        return a * b

    x = tf.constant([0.3, -0.7, 1.1])
    y = f(x, x)[0] * f(x, x + 1.)[1] + g(x) + h(x, 2. * x)
    z = f(x, tf.constant([1., 2., 3.]))[1]
    out = tf.gradients(y, [x]) + tf.gradients(z, [x]) + [y]
    assert any(op.type == "SymbolicGradient" for op in x.graph.get_operations())
    return out


def check(name):
    """An outcome like the workers'."""
    import oracle
    tf = oracle.tf
    with tf.Graph().as_default() as g:
        fetches = [t.name for t in GRAPHS[name](tf)]
    steps = [(fetches, {}, [])]
    theirs = oracle.run_tf(g, steps)
    ours = oracle.run_mf(g.as_graph_def().SerializeToString(), steps)
    if isinstance(theirs, oracle.Failure) or isinstance(ours, oracle.Failure):
        return dict(failures=["%r, TensorFlow: %r" % (ours, theirs)])
    bad = [(f, oracle.close(a, b)) for f, a, b in zip(fetches, ours[0], theirs[0])]
    return dict(failures=["%s: %s" % (f, what) for f, what in bad if what], compared=len(fetches))


NAMES = sorted(GRAPHS)
