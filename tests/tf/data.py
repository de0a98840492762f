# SPDX-License-Identifier: Apache-2.0
"""Data files against TensorFlow: records and examples both ways, PNG and JPEG."""
import ctypes
import os
import subprocess
import tempfile

CHECKS = {}


def check_of(fn):
    """Registers a check: it is called with tf, np and a folder, and yields errors."""
    CHECKS[fn.__name__] = fn
    return fn


def names():
    return list(CHECKS)


def check(name):
    import numpy as np
    import tensorflow as tf
    from tensorflow.python.eager import context
    # other tests of the same process are about graphs
    with tempfile.TemporaryDirectory() as folder, context.eager_mode():
        return dict(failures=list(CHECKS[name](tf, np, folder)))


class Column(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int),
                ("dims", ctypes.c_int64 * 8)]


def read(path, settings=""):
    """All samples of a data set: a dictionary of arrays by column."""
    import meshflow_lib as m
    import numpy as np
    m.lib.mf_dataset_count.restype = ctypes.c_int64
    m.lib.mf_dataset_read.argtypes = [m.P, ctypes.c_uint64, ctypes.c_int64, m.P]
    data, columns = m.P(), ctypes.POINTER(Column)()
    m.check(m.lib.mf_dataset_open(path.encode(), settings.encode(), ctypes.byref(data)))
    count, n = m.lib.mf_dataset_count(data), m.lib.mf_dataset_columns(data, ctypes.byref(columns))
    out = {}
    for c in columns[:n]:
        out[c.name.decode()] = np.zeros([count] + list(c.dims[:c.rank]), m.NUMPY[c.dtype])
    for i in range(count):
        at = (m.P * n)(*[a.ctypes.data + i * a.strides[0] for a in out.values()])
        m.check(m.lib.mf_dataset_read(data, 0, i, at))
    m.lib.mf_dataset_unref(data)
    return out


def feature(tf, np, value):
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    value = np.asarray(value)
    if value.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=value.ravel()))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=value.ravel()))


def write(tf, np, path, compression, samples):
    with tf.io.TFRecordWriter(path, options=compression) as out:
        for s in samples:
            features = {k: feature(tf, np, v) for k, v in s.items()}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            out.write(example.SerializeToString())


@check_of
def records_written_by_tensorflow(tf, np, folder):
    rng = np.random.RandomState(1)
    images = rng.randint(0, 256, (20, 5, 4, 3)).astype(np.uint8)
    floats = rng.randn(20, 6).astype(np.float32)
    ints = rng.randint(-2**62, 2**62, (20, 2))
    samples = [dict(image=images[i].tobytes(), v=floats[i], n=ints[i], label=[i % 4])
               for i in range(20)]
    for compression in ("", "GZIP", "ZLIB"):
        path = os.path.join(folder, "tf%s.tfrecord" % compression)
        write(tf, np, path, compression, samples)
        for more in ("", " compression='%s'" % compression):
            got = read(path, "columns='image:uint8[5,4,3] v:float[6] n:int64[2] label:int32'" + more)
            if not (np.array_equal(got["image"], images) and np.array_equal(got["v"], floats) and
                    np.array_equal(got["n"], ints) and
                    np.array_equal(got["label"], np.arange(20) % 4)):
                yield "compression '%s': other values" % compression
        got = read(path)
        if got["image"].shape != (20, 60) or got["v"].shape != (20, 6):
            yield "guessed columns: %s" % {k: v.shape for k, v in got.items()}


@check_of
def records_read_by_tensorflow(tf, np, folder):
    for compression in ("", "GZIP", "ZLIB"):
        path = os.path.join(folder, "ours%s.tfrecord" % compression)
        for data, settings in (("synthetic-ctr", "count=50"), ("synthetic-text", "count=50")):
            command = [os.environ["MESHFLOW"], "data", "convert", data, path, "--set", settings]
            subprocess.run(command + (["--compression", compression] if compression else []),
                           check=True, stdout=subprocess.DEVNULL)
            expected = read(data, settings)
            schema = {k: tf.io.FixedLenFeature(v.shape[1:], tf.float32 if v.dtype == np.float32
                                               else tf.int64) for k, v in expected.items()}
            n = 0
            for i, r in enumerate(tf.data.TFRecordDataset(path, compression_type=compression)):
                example = tf.io.parse_single_example(r, schema)
                n += all(np.array_equal(example[k].numpy(), expected[k][i]) for k in schema)
            if n != 50:
                yield "%s, compression '%s': %d of 50 equal" % (data, compression, n)
            again = read(path)
            if not all(np.array_equal(again[k], expected[k]) for k in expected):
                yield "%s, compression '%s': we read other values" % (data, compression)


def decoded(tf, np, folder, files, channels):
    """What we decode each file to."""
    out = []
    for i, (file, shape) in enumerate(files):
        path = os.path.join(folder, "%d.tfrecord" % i)
        write(tf, np, path, "", [dict(image=file)])
        out.append(read(path, "columns='image:image[%d,%d,%d]'" % (*shape[:2], channels))["image"][0])
    return out


def pictures(np, channels):
    """Noise and a smooth gradient, in odd sizes."""
    rng = np.random.RandomState(2)
    for h, w in ((1, 1), (7, 5), (33, 18), (64, 100)):
        yield rng.randint(0, 256, (h, w, channels)).astype(np.uint8)
        y, x, c = np.mgrid[0:h, 0:w, 0:channels]
        yield (128 + 100 * np.sin(y / 9 + c) * np.cos(x / 7)).astype(np.uint8)


@check_of
def png(tf, np, folder):
    for channels in (1, 2, 3, 4):
        for deep in (False, True):
            files = []
            for p in pictures(np, channels):
                p = p.astype(np.uint16) * 251 if deep else p
                files.append((tf.io.encode_png(p).numpy(), p.shape))
            for wanted in (1, 3):
                if wanted == 1 and channels > 2:
                    continue  # grey has more than one definition
                for i, got in enumerate(decoded(tf, np, folder, files, wanted)):
                    expected = tf.io.decode_png(files[i][0], channels=wanted).numpy()
                    if not np.array_equal(got, expected):
                        yield "%d channels%s to %d: picture %d differs by up to %d" % (
                            channels, ", 16 bits" if deep else "", wanted, i,
                            np.abs(got.astype(int) - expected).max())


@check_of
def jpeg(tf, np, folder):
    for channels in (1, 3):
        for quality in (50, 95):
            for progressive in (False, True):
                files = [(tf.io.encode_jpeg(p, quality=quality, progressive=progressive).numpy(),
                          p.shape) for p in pictures(np, channels)]
                for wanted in (1, 3):
                    for i, got in enumerate(decoded(tf, np, folder, files, wanted)):
                        expected = tf.io.decode_jpeg(files[i][0], channels=wanted,
                                                     dct_method="INTEGER_ACCURATE").numpy()
                        far = np.abs(got.astype(int) - expected).max()
                        if far > 2:
                            yield "%d channels, quality %d, to %d: picture %d differs by up to %d" % (
                                channels, quality, wanted, i, far)


@check_of
def damaged_records(tf, np, folder):
    """Both readers fail with DATA_LOSS at the same place, and return the same records before it."""
    import meshflow_lib as m
    path = os.path.join(folder, "x.tfrecord")
    write(tf, np, path, "", [dict(v=[float(i)]) for i in range(3)])
    whole = open(path, "rb").read()
    for at in range(len(whole)):
        with open(path, "wb") as out:
            out.write(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1:])
        try:
            list(tf.data.TFRecordDataset(path))
            yield "byte %d: TensorFlow reads it" % at
        except tf.errors.DataLossError:
            pass
        try:
            read(path, "columns='v:float'")
            yield "byte %d: we read it" % at
        except m.Error as error:
            if error.name != "DATA_LOSS":
                yield "byte %d: %s" % (at, error)
