# SPDX-License-Identifier: Apache-2.0
"""Checkpoints against TensorFlow: each reads what the other wrote. And safetensors files against a reader and a writer
implemented here from the specification of the format."""
import json
import os
import struct
import subprocess
import tempfile

CHECKS = {}
MODEL = ["--model", "mlp", "--data", "fashion-mnist"]
DTYPES = {"C64": "complex64", "F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32", "I16": "int16",
          "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool"}


def check_of(fn):
    """Registers a check: it is called with tf, np and a folder, and yields errors."""
    CHECKS[fn.__name__.replace("_", " ")] = fn
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


def program(*args):
    import oplist
    r = subprocess.run([oplist.PROGRAM, *args], capture_output=True, text=True, timeout=120, check=False)
    if r.returncode != 0:
        raise RuntimeError("meshflow %s: %s" % (" ".join(args), r.stderr))
    return r.stdout


def train(folder, *more, steps=10):
    """The prefix of the checkpoint that a short training leaves."""
    program("train", *MODEL, "--steps", str(steps), "--optimizer", "adam", "--no-test", "--quiet", "--out", folder,
            *more)
    return os.path.join(folder, "model.ckpt-%d" % steps)


def as_npz(np, checkpoint, folder):
    path = os.path.join(folder, "as.npz")
    program("ckpt", "convert", checkpoint, path)
    with np.load(path) as z:
        return dict(z)


def same(np, what, a, b):
    """Bits, not values: a NaN is as good as a number."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind in "OS" or b.dtype.kind in "OS":
        equal = a.shape == b.shape and [bytes(x) for x in a.reshape(-1)] == [bytes(x) for x in b.reshape(-1)]
    else:
        equal = a.shape == b.shape and a.dtype.itemsize == b.dtype.itemsize and a.tobytes() == b.tobytes()
    return [] if equal else ["%s: %s%s differs from %s%s" % (what, a.dtype, a.shape, b.dtype, b.shape)]


def read_by_tensorflow(tf, prefix):
    reader = tf.train.load_checkpoint(prefix)
    return {n: reader.get_tensor(n) for n in reader.get_variable_to_shape_map()}


def restored_by_tensorflow(tf, prefix):
    """The same by the op that Saver uses: the Python reader does not support float16."""
    types = tf.train.load_checkpoint(prefix).get_variable_to_dtype_map()
    values = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=list(types), shape_and_slices=[""] * len(types),
                                  dtypes=list(types.values()))
    return {n: v.numpy() for n, v in zip(types, values) if n != "_meshflow/run"} # every training has its own


# ---- ours, read by TensorFlow ----

@check_of
def tensorflow_loads_what_training_wrote(tf, np, folder):
    prefix = train(folder)
    if tf.train.latest_checkpoint(folder) != prefix:
        yield "the newest checkpoint is %s, not %s" % (tf.train.latest_checkpoint(folder), prefix)
    theirs, ours = read_by_tensorflow(tf, prefix), as_npz(np, prefix, folder)
    if set(theirs) != set(ours):
        yield "TensorFlow finds %s, we have %s" % (sorted(theirs), sorted(ours))
    for name in {"dense/kernel", "dense/kernel/Adam", "dense/kernel/Adam_1", "dense_1/bias", "beta1_power",
                 "global_step", "_meshflow/numerics_class", "_meshflow/run"} - set(theirs):
        yield "there is no %s" % name
    if theirs["global_step"] != 10:
        yield "global_step is %s" % theirs["global_step"]
    for name in ours:
        yield from same(np, name, theirs[name], ours[name])


@check_of
def tensorflow_loads_weights_stored_in_16_bits(tf, np, folder):
    for stored, theirs in ("bf16", tf.bfloat16), ("fp16", tf.float16):
        kind = ["--precision", "fp32 stored=%s" % stored]
        whole = restored_by_tensorflow(tf, train(os.path.join(folder, stored + "-32")))
        one = restored_by_tensorflow(tf, train(os.path.join(folder, stored), *kind))
        many = os.path.join(folder, stored + "-servers")
        program("launch", "--workers", "2", "--ps", "2", "--", "train", *MODEL, "--steps", "10", "--optimizer", "adam",
                "--no-test", "--quiet", "--out", many, *kind)
        many = restored_by_tensorflow(tf, tf.train.latest_checkpoint(many))
        if set(one) != set(whole) or set(many) != set(whole):
            yield "%s: %s" % (stored, (set(one) ^ set(whole)) | (set(many) ^ set(whole)))
        for name in whole:
            is_weight = name.startswith("dense") and name.count("/") == 1
            want = tf.cast(whole[name], theirs).numpy() if is_weight else whole[name]
            yield from same(np, "%s %s" % (stored, name), one[name], want)
            yield from same(np, "%s of servers %s" % (stored, name), many[name], want)
            if is_weight and one[name].dtype != theirs.as_numpy_dtype:
                yield "%s is %s" % (name, one[name].dtype)


@check_of
def tensorflow_loads_what_parameter_servers_wrote(tf, np, folder):
    kinds = [[*MODEL, "--optimizer", "adam"],
             ["--model", "wide-deep", "--data", "synthetic-ctr", "--optimizer", "ftrl"],
             ["--model", "cnn-small", "--data", "fashion-mnist", "--optimizer", "momentum", "--ema", "0.9"]]
    for i, kind in enumerate(kinds):
        args = ["train", *kind, "--steps", "3", "--batch", "8", "--no-test", "--quiet"]
        one, many = os.path.join(folder, "one%d" % i), os.path.join(folder, "many%d" % i)
        program(*args, "--out", one)
        program("launch", "--workers", "2", "--ps", "3", "--", *args, "--out", many)
        prefix = tf.train.latest_checkpoint(many)
        if not os.path.exists(prefix + ".data-00003-of-00004"):
            yield "%s: %s" % (kind, os.listdir(many))
        want = read_by_tensorflow(tf, tf.train.latest_checkpoint(one))
        got = read_by_tensorflow(tf, prefix)
        if set(want) != set(got):
            yield "%s: %s" % (kind, set(want) ^ set(got))
        for name in set(want) - {"_meshflow/run"}: # every training has its own
            yield from same(np, "%s %s" % (kind[1], name), got[name], want[name])


def mlp(tf, v1):
    """The zoo's mlp with the variables of a TensorFlow 1 training."""
    image = v1.placeholder(tf.float32, [None, 784])
    label = v1.placeholder(tf.int32, [None])
    with v1.variable_scope("dense"):
        x = tf.nn.relu(image @ v1.get_variable("kernel", [784, 128]) + v1.get_variable("bias", [128]))
    with v1.variable_scope("dense_1"):
        x = x @ v1.get_variable("kernel", [128, 10]) + v1.get_variable("bias", [10])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=x))
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(x, 1, output_type=tf.int32), label), tf.float32))
    step = v1.train.AdamOptimizer(0.001, epsilon=1e-7).minimize(loss, v1.train.get_or_create_global_step())
    return image, label, loss, accuracy, step


def pictures(np, part="test"):
    import data
    columns = data.read("fashion-mnist", "part=" + part)
    return columns["image"].reshape(-1, 784).astype(np.float32) / np.float32(255), columns["label"]


def evaluate(prefix):
    return json.loads(program("eval", *MODEL, "--from", prefix, "--json"))


@check_of
def a_saver_restores_weights_slots_and_counts(tf, np, folder):
    import tensorflow.compat.v1 as v1
    prefix = train(folder)
    x, y = pictures(np)
    with tf.Graph().as_default(), v1.Session() as session:
        image, label, loss, accuracy, _ = mlp(tf, v1)
        v1.train.Saver().restore(session, prefix)  # of all variables, slots and counts too
        got = session.run([loss, accuracy], {image: x, label: y})
        if session.run(v1.train.get_global_step()) != 10:
            yield "global_step is not 10"
        v1.train.Saver().save(session, os.path.join(folder, "theirs"), write_meta_graph=False)
    want = evaluate(prefix)
    if abs(got[0] - want["loss"]) > 1e-4 or abs(got[1] - want["accuracy"]) > 1e-6:
        yield "TensorFlow says loss %s, accuracy %s; we %s" % (*got, want)
    ours, theirs = as_npz(np, prefix, folder), as_npz(np, os.path.join(folder, "theirs"), folder)
    for name in theirs:
        yield from same(np, name, ours[name], theirs[name])


# ---- TensorFlow's, read by us ----

@check_of
def we_evaluate_and_train_with_what_tensorflow_wrote(tf, np, folder):
    import tensorflow.compat.v1 as v1
    x, y = pictures(np)
    for sharded in False, True:
        prefix = os.path.join(folder, "tf-%d" % sharded)
        with tf.Graph().as_default(), v1.Session() as session:
            image, label, loss, accuracy, step = mlp(tf, v1)
            session.run(v1.global_variables_initializer())
            for i in range(20):
                session.run(step, {image: x[i * 50:][:50], label: y[i * 50:][:50]})
            v1.train.Saver(sharded=sharded).save(session, prefix, write_meta_graph=False)
            want = session.run([loss, accuracy], {image: x, label: y})
            weights = {v.op.name: session.run(v) for v in v1.trainable_variables()}
        got = evaluate(prefix)
        if abs(want[0] - got["loss"]) > 1e-4 or abs(want[1] - got["accuracy"]) > 1e-6:
            yield "TensorFlow says loss %s, accuracy %s; we %s" % (*want, got)
        # A step that changes nothing shows that training begins with these weights.
        out = os.path.join(folder, "init-%d" % sharded)
        program("train", *MODEL, "--init", prefix, "--steps", "1", "--lr", "1e-30", "--no-test", "--quiet", "--out", out)
        ours = as_npz(np, out, folder)
        for name, value in weights.items():
            yield from same(np, name, ours[name], value)


def of_all_types(tf, np):
    rng = np.random.default_rng(5)
    values = {}
    for dtype in (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8,
                  tf.uint16, tf.uint32, tf.uint64, tf.bool, tf.complex64, tf.complex128):
        for shape in [], [0, 3], [2, 3, 5]:
            n = int(np.prod(shape)) * dtype.size
            raw = rng.integers(0, 2 if dtype == tf.bool else 256, n).astype(np.uint8).tobytes()
            values["%s%s" % (dtype.name, shape)] = np.frombuffer(raw, dtype.as_numpy_dtype).reshape(shape)
    values["text"] = np.array([b"", b"a\0b", "\u00e9".encode()], object)
    values["word"] = np.array(b"word", object)
    return values


def save(tf, prefix, values, slices=None):
    names_ = list(values)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=[n.partition("@")[0] for n in names_],
                      shape_and_slices=[slices[n] if slices else "" for n in names_],
                      tensors=[tf.constant(values[n]) for n in names_])


@check_of
def all_types_survive_from_tensorflow_to_us_and_back(tf, np, folder):
    values = of_all_types(tf, np)
    prefix, again = os.path.join(folder, "all"), os.path.join(folder, "again")
    save(tf, prefix, values)
    program("ckpt", "verify", prefix)
    program("ckpt", "convert", prefix, again)
    back = read_by_tensorflow(tf, again)
    if set(back) != set(values):
        yield "other names: %s" % sorted(set(back) ^ set(values))
    for name in values:
        yield from same(np, name, back[name], values[name])


@check_of
def slices_are_put_together(tf, np, folder):
    whole = np.arange(35, dtype=np.float32).reshape(5, 7)
    prefix = os.path.join(folder, "slices")
    save(tf, prefix, {"w@0": whole[:2], "w@1": whole[2:]}, {"w@0": "5 7 0,2:-", "w@1": "5 7 2,3:-"})
    got = as_npz(np, prefix, folder)
    if set(got) != {"w"}:
        yield "names are %s" % sorted(got)
    yield from same(np, "w", got["w"], whole)


# ---- safetensors ----

def read_safetensors(np, path):
    """The tensors and the metadata, checked against the specification of the format."""
    raw = open(path, "rb").read()
    (length,) = struct.unpack("<Q", raw[:8])
    text, body = raw[8:8 + length], raw[8 + length:]
    assert text[:1] == b"{" and length % 8 == 0, text[:20]
    header = json.loads(text)
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(v, str) for v in metadata.values()), metadata
    tensors, at = {}, 0
    for name, t in sorted(header.items(), key=lambda i: i[1]["data_offsets"]):
        begin, end = t["data_offsets"]
        assert begin == at and set(t) == {"dtype", "shape", "data_offsets"}, (name, t)
        tensors[name] = np.frombuffer(body[begin:end], DTYPES.get(t["dtype"], "uint16")).reshape(t["shape"])
        assert begin % tensors[name].itemsize == 0, (name, begin)
        at = end
    assert at == len(body), (at, len(body))
    return tensors, metadata


def write_safetensors(path, tensors, metadata, space):
    header, body = {"__metadata__": metadata}, b""
    for name, v in tensors.items():
        dtype = {b: a for a, b in DTYPES.items()}[v.dtype.name]
        header[name] = dict(dtype=dtype, shape=list(v.shape), data_offsets=[len(body), len(body) + v.nbytes])
        body += v.tobytes()
    text = json.dumps(header, indent=2 if space else None).encode() + b" " * space
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)


@check_of
def safetensors_files_match_the_specification(tf, np, folder):
    path = os.path.join(folder, "x.safetensors")
    prefix = train(folder)
    program("ckpt", "convert", prefix, path)
    tensors, metadata = read_safetensors(np, path)
    for name, value in as_npz(np, prefix, folder).items():
        if value.dtype.kind == "S":
            yield from same(np, name, metadata[name].encode(), value)
        else:
            yield from same(np, name, tensors[name], value)
    values = {n: v for n, v in of_all_types(tf, np).items() if n not in ("text", "word") and "complex128" not in n}
    save(tf, os.path.join(folder, "all"), values)
    program("ckpt", "convert", os.path.join(folder, "all"), path)
    tensors, _ = read_safetensors(np, path)
    for name in values:
        yield from same(np, name, tensors[name], values[name])


@check_of
def safetensors_files_of_others_are_read(tf, np, folder):
    del tf
    rng = np.random.default_rng(7)
    tensors = {"%s/%s" % (d, s): (rng.normal(size=s) * 100).astype(d) for d in DTYPES.values()
               for s in [(), (3,), (2, 0), (3, 1, 2)]}
    for space in 0, 5:
        path = os.path.join(folder, "y.safetensors")
        write_safetensors(path, tensors, {"format": "pt", "k\u00e9y": "\u2713 \"quoted\""}, space)
        program("ckpt", "verify", path)
        got = as_npz(np, path, folder)
        for name, value in tensors.items():
            yield from same(np, name, got[name], value)
        yield from same(np, "metadata", got["k\u00e9y"], "\u2713 \"quoted\"".encode())
