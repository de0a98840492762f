# SPDX-License-Identifier: Apache-2.0
"""Data sets, iterators, tables, readers and files, run by TensorFlow's own session and by ours.

A case builds a graph and returns what to do with a session: a function that is called with a player
and answers with values. Both answers must be equal, order and errors included."""
import os
import re
import shutil
import tempfile

CASES = {}


def case(fn):
    """Register a case; it is called with the tensorflow module and a scratch folder, so that listing
    needs no import."""
    CASES[fn.__name__] = fn
    return fn


class Player:
    """A session, ours or TensorFlow's, and the few things that cases do with one."""

    def __init__(self, tf, run):
        self.tf, self._run = tf, run

    def run(self, what, feeds=None):
        """Values as Python's lists and numbers; (name of the error, its first line) where it fails."""
        try:
            return plain(self._run(what, feeds or {}))
        except self.tf.errors.OpError as e:
            return error_of(e)

    def drain(self, what, most=200):
        """All that an iterator gives, and how it ended."""
        out = []
        while len(out) < most:
            out.append(self.run(what))
            if isinstance(out[-1], tuple):
                break
        return out


def error_of(e):
    """(name of the error, the last line before the nodes): TensorFlow's client prepends source locations."""
    return type(e).__name__, re.sub(r"^[A-Z_]+: ", "", e.message.split("\n\t [[")[0].split("\n")[-1])


def plain(x):
    import numpy as np
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        if hasattr(x, "_asdict"):
            return {k: plain(v) for k, v in x._asdict().items()}
        return [plain(v) for v in x]
    if isinstance(x, np.ndarray):
        return [str(x.dtype), list(x.shape), x.tolist()]
    if isinstance(x, np.generic):
        return [str(x.dtype), x.item()]
    return x


def one_shot(tf, dataset):
    return tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()


def initializable(tf, dataset):
    it = tf.compat.v1.data.make_initializable_iterator(dataset)
    return it.initializer, it.get_next()


def draining(tf, *datasets):
    """Play each data set to its end."""
    nexts = [one_shot(tf, d) for d in datasets]
    return lambda p: [p.drain(n) for n in nexts]


# ---- sources ----

@case
def ranges(tf, _):
    d = tf.compat.v1.data.Dataset
    return draining(tf, d.range(5), d.range(2, 9, 3), d.range(3, -4, -2), d.range(4, 4),
                    d.range(3, output_type=tf.int32), d.range(2, 5, output_type=tf.float32))


@case
def range_without_a_step(tf, _):
    return draining(tf, tf.compat.v1.data.Dataset.range(0, 5, 0))


@case
def tensors_and_slices(tf, _):
    d = tf.compat.v1.data.Dataset
    x = tf.reshape(tf.range(12), [3, 2, 2])
    return draining(tf, d.from_tensors((x, {"s": tf.constant(["a", "bc"])})),
                    d.from_tensor_slices((x, tf.constant([b"x", b"", b"zz"]))),
                    d.from_tensor_slices({"b": [True, False], "f": [[1.5], [2.5]]}))


@case
def slices_of_other_lengths(tf, _):
    a, b = (tf.compat.v1.placeholder(tf.int32, [None]) for _ in range(2))
    init, n = initializable(tf, tf.compat.v1.data.Dataset.from_tensor_slices((a, b)))
    return lambda p: [p.run(init, {a: [1, 2], b: [1, 2, 3]})[0], p.run(n)[0],
                      p.run(init, {a: [1, 2], b: [3, 4]}), p.drain(n)]


# ---- taking, skipping, joining ----

@case
def parts(tf, _):
    d = tf.compat.v1.data.Dataset.range(7)
    return draining(tf, d.take(3), d.take(0), d.take(-1), d.take(99), d.skip(5), d.skip(9), d.skip(-1),
                    d.shard(3, 1), d.shard(3, 0), d.take(2).shard(5, 4), d.skip(2).take(3).enumerate(7))


@case
def wrong_parts(tf, _):
    n, i = (tf.compat.v1.placeholder(tf.int64, []) for _ in range(2))
    init, nx = initializable(tf, tf.compat.v1.data.Dataset.range(7).shard(n, i))
    return lambda p: [p.run(init, {n: 2, i: 2}), p.run(init, {n: 0, i: 0}), p.run(init, {n: 2, i: -1}),
                      p.run(nx)]


@case
def repeats(tf, _):
    d = tf.compat.v1.data.Dataset
    return draining(tf, d.range(3).repeat(2), d.range(3).repeat(0), d.range(2).repeat(), d.range(0).repeat(),
                    d.range(2).repeat().take(5), d.range(3).concatenate(d.range(7, 9)).repeat(2))


@case
def joined(tf, _):
    d = tf.compat.v1.data.Dataset
    return draining(tf, d.range(2).concatenate(d.range(0)).concatenate(d.range(5, 7)),
                    d.zip((d.range(4), d.range(10, 13))),
                    d.zip({"a": d.range(2), "b": (d.range(5), d.from_tensors(["x"]).repeat())}))


# ---- functions ----

@case
def maps(tf, _):
    d = tf.compat.v1.data.Dataset
    seven = tf.constant(7, tf.int64)
    return draining(tf, d.range(4).map(lambda i: i * i + seven),
                    d.range(3).map(lambda i: (i, tf.strings.as_string(i), tf.fill([i], 2.5))),
                    d.range(5).map(lambda i: {"x": i + 1}).map(lambda r: r["x"] * 2),
                    d.range(6).map(lambda i: i + 1, num_parallel_calls=3),
                    d.range(4).map(lambda i: tf.cond(i > 1, lambda: i * 10, lambda: -i)),
                    d.range(4).map(lambda i: tf.while_loop(lambda k, a: k < i, lambda k, a: (k + 1, a + k),
                                                           [tf.constant(0, tf.int64), i])[1]))


@case
def map_that_fails(tf, _):
    def check(i):
        with tf.control_dependencies([tf.debugging.Assert(i < 2, ["too large", i])]):
            return tf.identity(i)
    n = one_shot(tf, tf.compat.v1.data.Dataset.range(4).map(check))

    def play(p):
        *rows, (name, text) = p.drain(n)
        return rows, name, text.endswith("assertion failed: [too large] [2]")
    return play


@case
def map_over_a_variable(tf, _):
    v = tf.compat.v1.get_variable("v", initializer=tf.constant(10, tf.int64), use_resource=True)
    init, n = initializable(tf, tf.compat.v1.data.Dataset.range(5).map(lambda i: i + v))
    grow = v.assign_add(100)
    return lambda p: [p.run(init), p.run(n)[0], p.run(v.initializer), p.run(init), p.run(n),
                      p.run(grow), p.run(init), p.drain(n)]


@case
def map_with_random_numbers(tf, _):
    tf.compat.v1.set_random_seed(7)
    d = tf.compat.v1.data.Dataset

    def draw(i):
        return i, tf.random.uniform([2], seed=5)
    one, two, flat = d.range(3).map(draw), d.range(2).map(draw).repeat(2), d.range(2).flat_map(
        lambda j: d.range(2).map(lambda i: tf.random.uniform([], 0, 100, tf.int32, seed=5)))
    (i1, n1), (i2, n2) = initializable(tf, one), initializable(tf, two)
    n3 = one_shot(tf, flat)
    return lambda p: [p.run(i1), p.drain(n1), p.run(i1), p.drain(n1), p.run(i2), p.drain(n2), p.drain(n3)]


@case
def filters(tf, _):
    d = tf.compat.v1.data.Dataset
    return draining(tf, d.range(9).filter(lambda i: tf.equal(i % 3, 1)), d.range(4).filter(lambda i: i > 9),
                    d.range(9).apply(tf.data.experimental.take_while(lambda i: i < 4)))


@case
def scans(tf, _):
    d = tf.compat.v1.data.Dataset
    return draining(tf, d.range(6).apply(tf.data.experimental.scan(
        (tf.constant(0, tf.int64), tf.constant(1, tf.int64)),
        lambda s, x: ((s[1], s[0] + s[1]), (s[0], x)))))


@case
def nested(tf, _):
    d = tf.compat.v1.data.Dataset
    return draining(tf, d.range(4).flat_map(d.range), d.range(0).flat_map(d.range),
                    d.range(5).interleave(lambda i: d.from_tensors(i).repeat(i), cycle_length=2),
                    d.range(5).interleave(lambda i: d.from_tensors(i).repeat(4), cycle_length=3, block_length=2),
                    d.range(4).interleave(lambda i: d.range(i), cycle_length=2, num_parallel_calls=2),
                    d.range(2).flat_map(lambda i: d.range(2).flat_map(lambda j: d.from_tensors(i * 10 + j))))


@case
def windows(tf, _):
    d = tf.compat.v1.data.Dataset

    def joined_windows(*args, **kw):
        return d.range(7).window(*args, **kw).flat_map(lambda w: w.batch(9))
    two = d.zip((d.range(4), d.range(10, 14))).window(2).flat_map(lambda a, b: d.zip((a.batch(2), b.batch(2))))
    return draining(tf, joined_windows(3), joined_windows(3, drop_remainder=True), joined_windows(3, 1),
                    joined_windows(2, 3), joined_windows(2, 1, 2, drop_remainder=True), two)


@case
def reductions(tf, _):
    d = tf.compat.v1.data.Dataset
    k = tf.constant(3, tf.int64)
    outs = [d.range(5).reduce(tf.constant(0, tf.int64), lambda a, b: a + b * k),
            d.range(0).reduce(tf.constant(9, tf.int64), lambda a, b: a + b),
            d.range(4).reduce((tf.constant(0, tf.int64), tf.constant("")),
                              lambda s, x: (s[0] + x, s[1] + tf.strings.as_string(x)))]
    return lambda p: [p.run(o) for o in outs]


# ---- batches ----

@case
def batches(tf, _):
    d = tf.compat.v1.data.Dataset
    rows = d.range(7).map(lambda i: (i, tf.fill([2, 1], i), tf.strings.as_string(i)))
    return draining(tf, rows.batch(3), rows.batch(3, drop_remainder=True), rows.batch(7).repeat(2),
                    d.range(0).batch(2), d.range(4).batch(2).batch(2), d.range(5).batch(2, num_parallel_calls=2),
                    rows.batch(3).apply(tf.data.experimental.unbatch()))


@case
def batches_that_do_not_fit(tf, _):
    d = tf.compat.v1.data.Dataset
    n = tf.compat.v1.placeholder(tf.int64, [])
    init, nx = initializable(tf, d.range(3).batch(n))
    uneven = one_shot(tf, d.range(1, 4).map(lambda i: tf.fill([i], i)).batch(3))
    return lambda p: [p.run(init, {n: 0}), p.run(init, {n: -1}), p.run(nx)[0], p.run(uneven)[0]]


@case
def padded_batches(tf, _):
    d = tf.compat.v1.data.Dataset
    rows = d.range(1, 6).map(lambda i: (tf.fill([i], i), tf.fill([i, 2], tf.strings.as_string(i))))
    short = d.range(1, 4).map(lambda i: tf.fill([i], i))
    return draining(tf, rows.padded_batch(2, ([None], [None, None])),
                    rows.padded_batch(2, ([6], [None, 3]), drop_remainder=True),
                    rows.padded_batch(3, ([None], [7, 2]), (tf.constant(-1, tf.int64), "pad")),
                    short.padded_batch(2, [2]))


# ---- order, memory, hints ----

@case
def shuffles(tf, _):
    tf.compat.v1.set_random_seed(3)
    d = tf.compat.v1.data.Dataset
    inits = [initializable(tf, x) for x in (
        d.range(10).shuffle(4, seed=3), d.range(10).shuffle(100, seed=3).repeat(3),
        d.range(6).shuffle(3, seed=1, reshuffle_each_iteration=False).repeat(3), d.range(5).shuffle(1, seed=1),
        d.range(5).repeat(2).shuffle(4, seed=9), d.range(0).shuffle(2, seed=1).repeat(),
        d.range(4).apply(tf.data.experimental.shuffle_and_repeat(3, 2, seed=4)))]
    return lambda p: [[p.run(i), p.drain(n), p.run(i), p.drain(n)] for i, n in inits]


@case
def caches(tf, _):
    d = tf.compat.v1.data.Dataset
    return draining(tf, d.range(4).cache().repeat(2), d.range(5).cache().take(2).repeat(2),
                    d.range(3).map(lambda i: tf.random.uniform([], seed=3)).cache().repeat(2))


@case
def hints(tf, _):
    d = tf.compat.v1.data.Dataset
    options = tf.data.Options()
    options.deterministic = True
    options.experimental_optimization.map_parallelization = True
    return draining(tf, d.range(4).prefetch(2), d.range(4).prefetch(-1).with_options(options),
                    d.range(10).map(lambda i: i + 1).batch(4).prefetch(1))


@case
def cardinalities(tf, _):
    d = tf.compat.v1.data.Dataset
    r = d.range(10)
    sets = [r, r.repeat(), r.repeat(3), r.take(3), r.take(-1), r.skip(4), r.skip(40), r.batch(3),
            r.batch(3, drop_remainder=True), r.shard(3, 1), r.shuffle(4), r.prefetch(2), r.cache(),
            r.filter(lambda i: i > 3), r.map(lambda i: i), r.concatenate(r), r.concatenate(r.repeat()),
            d.zip((r, d.range(4))), r.flat_map(d.range), d.from_tensors(3), d.from_tensor_slices([1, 2, 3]),
            r.repeat().take(3), r.repeat().skip(3), r.window(3), r.window(3, drop_remainder=True),
            r.interleave(d.range, 2), d.zip((r.repeat(), r.repeat())), r.take(5).padded_batch(2, []),
            r.repeat(0), d.range(0).repeat()]
    outs = [tf.data.experimental.cardinality(s) for s in sets]
    return lambda p: p.run(outs)


# ---- iterators ----

@case
def iterators(tf, _):
    v1 = tf.compat.v1.data
    d = v1.Dataset
    handle = tf.compat.v1.placeholder(tf.string, [])
    shared = v1.Iterator.from_string_handle(handle, tf.int64, []).get_next()
    one = v1.make_one_shot_iterator(d.range(3))
    other = v1.make_initializable_iterator(d.range(10, 12))
    h1, h2 = one.string_handle(), other.string_handle()
    again = v1.Iterator.from_structure(tf.int64, [])
    inits = [again.make_initializer(d.range(2)), again.make_initializer(d.range(7, 9))]
    n, n_other = again.get_next(), other.get_next()

    def play(p):
        a, b = (p._run(h, {}) for h in (h1, h2))
        return [p.run(n)[0], p.run(n_other)[0], p.run(shared, {handle: a}), p.run(shared, {handle: b})[0],
                p.run(other.initializer), p.run(shared, {handle: b}), p.run(n_other), p.run(shared, {handle: a}),
                p.run(shared, {handle: "no such thing"})[0], p.run(inits[0]), p.run(n), p.run(inits[1]),
                p.drain(n), p.run(n), p.run(inits[0]), p.drain(n)]
    return play


@case
def iterator_of_another_type(tf, _):
    v1 = tf.compat.v1.data
    it = v1.Iterator.from_structure((tf.int64, tf.float32), ([], [2]))
    x = tf.compat.v1.placeholder(tf.float32, None)
    init = it.make_initializer(v1.Dataset.from_tensors((tf.constant(1, tf.int64), x)))
    n = it.get_next()
    return lambda p: [p.run(init, {x: [1., 2.]}), p.run(n), p.run(n), p.run(init, {x: [1., 2., 3.]}), p.run(n)[0]]


@case
def optionals(tf, _):
    it = tf.compat.v1.data.make_initializable_iterator(tf.compat.v1.data.Dataset.range(2).map(lambda i: (i, i * 2)))
    o = tf.experimental.Optional
    some, none = o.from_value((tf.constant(3), tf.constant("x"))), o.empty(tf.TensorSpec([], tf.int32))
    nx = tf.data.experimental.get_next_as_optional(it)
    has, value = nx.has_value(), nx.get_value()
    return lambda p: [p.run(it.initializer), p.run([has, value]), p.run([has, value]), p.run(has), p.run(value),
                      p.run([some.has_value(), some.get_value(), none.has_value()]), p.run(none.get_value())]


# ---- files ----

def write_examples(tf, path, n=5, options=None):
    f = tf.train.Feature
    with tf.io.TFRecordWriter(path, options) as w:
        for i in range(n):
            w.write(tf.train.Example(features=tf.train.Features(feature={
                "id": f(int64_list=tf.train.Int64List(value=[i])),
                "x": f(float_list=tf.train.FloatList(value=[i * .5, i + 1.])),
                "tags": f(bytes_list=tf.train.BytesList(value=[b"t%d" % k for k in range(i)])),
                "ints": f(int64_list=tf.train.Int64List(value=range(2 * (i % 3))))})).SerializeToString(deterministic=True))


@case
def records(tf, scratch):
    a, b, z, g = (os.path.join(scratch, n) for n in "abzg")
    write_examples(tf, a)
    write_examples(tf, b, 2)
    write_examples(tf, z, 3, "ZLIB")
    write_examples(tf, g, 3, "GZIP")
    r = tf.compat.v1.data.TFRecordDataset
    return draining(tf, r(a), r([b, a]), r(z, "ZLIB"), r(g, "GZIP"), r([a, b], num_parallel_reads=2),
                    r(tf.compat.v1.data.Dataset.list_files(os.path.join(scratch, "[ab]"), shuffle=False)))


@case
def damaged_records(tf, scratch):
    good, cut, bad = (os.path.join(scratch, n) for n in ("good", "cut", "bad"))
    write_examples(tf, good, 2)
    whole = open(good, "rb").read()
    open(cut, "wb").write(whole[:-3])
    open(bad, "wb").write(whole[:20] + b"!" + whole[21:])
    r = tf.compat.v1.data.TFRecordDataset
    names = [p for p in (cut, bad, os.path.join(scratch, "absent"))]
    nexts = [one_shot(tf, r(n)) for n in names]
    return lambda p: [[x[0] if isinstance(x, tuple) else x for x in p.drain(n)] for n in nexts]


@case
def lines(tf, scratch):
    p = os.path.join(scratch, "lines")
    open(p, "wb").write(b"one\ntwo\r\n\nlast without an end")
    q = os.path.join(scratch, "more")
    open(q, "wb").write(b"more\n")
    t = tf.compat.v1.data.TextLineDataset
    return draining(tf, t(p), t([p, q]), t(p).skip(1).map(tf.strings.length))


@case
def fixed_records(tf, scratch):
    p = os.path.join(scratch, "fixed")
    open(p, "wb").write(bytes(range(65, 65 + 14)))
    f = tf.compat.v1.data.FixedLengthRecordDataset
    ok = [one_shot(tf, f(p, 4, 2)), one_shot(tf, f([p, p], 5, 3, 1)), one_shot(tf, f(p, 7))]
    bad = one_shot(tf, f(p, 4))
    return lambda s: [s.drain(n) for n in ok] + [s.run(bad)[0]]


@case
def files(tf, scratch):
    v1 = tf.compat.v1
    p = os.path.join(scratch, "sub", "o.txt")
    write, read = v1.write_file(p, "written"), v1.read_file(p)
    for n in ("b.t", "a.t", "c.u"):
        open(os.path.join(scratch, n), "w").close()
    match = v1.matching_files([os.path.join(scratch, "*.t"), os.path.join(scratch, "?.u")])
    none = v1.matching_files(os.path.join(scratch, "nothing*"))
    absent = v1.read_file(os.path.join(scratch, "absent"))
    return lambda s: [s.run(write), s.run(read), s.run(match), s.run(none), s.run(absent)]


@case
def readers(tf, scratch):
    v1 = tf.compat.v1
    rec, text, fixed = (os.path.join(scratch, n) for n in ("rec", "text", "fixed"))
    write_examples(tf, rec, 3)
    open(text, "w").write("head\none\ntwo\n")
    open(fixed, "wb").write(b"h" + b"abcd" * 2 + b"f")
    out = []
    for reader, names in ((v1.TFRecordReader(), [rec]), (v1.TextLineReader(skip_header_lines=1), [text, text]),
                          (v1.FixedLengthRecordReader(4, 1, 1), [fixed]), (v1.WholeFileReader(), [text, fixed]),
                          (v1.IdentityReader(), ["x", "y"])):
        q = v1.FIFOQueue(9, [tf.string], [[]])
        out.append((q.enqueue_many([names]), q.close(), reader.read(q), reader.num_records_produced(),
                    reader.num_work_units_completed(), reader.reset(), reader.read_up_to(q, 2)))

    def play(p):
        got = []
        for put, close, read, records_, units, reset, up_to in out:
            p.run(put)
            got += [p.run(read), p.run(records_), p.run(units), p.run(up_to)]
            p.run(close)
            rest = p.drain(read)
            got += [rest[:-1], rest[-1][0], p.run(records_), p.run(units), p.run(reset), p.run(records_)]
        return got
    return play


@case
def examples(tf, scratch):
    v1 = tf.compat.v1
    path = os.path.join(scratch, "e")
    write_examples(tf, path)
    fixed = {"id": v1.FixedLenFeature([], tf.int64), "x": v1.FixedLenFeature([2], tf.float32)}
    spec = dict(fixed, tags=v1.VarLenFeature(tf.string), nothing=v1.VarLenFeature(tf.float32),
                given=v1.FixedLenFeature([2], tf.string, default_value=["p", "q"]),
                ints=v1.FixedLenSequenceFeature([2], tf.int64, allow_missing=True, default_value=-1))
    d = v1.data.TFRecordDataset(path)
    rows = d.batch(3).map(lambda s: v1.parse_example(s, spec))

    def ragged_parts(s):
        r = tf.io.parse_example(s, {"tags": tf.io.RaggedFeature(tf.string),
                                    "ints": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)})
        return [t for k in ("tags", "ints") for t in (r[k].values, r[k].row_splits)]
    ragged = d.batch(5).map(lambda s: tuple(ragged_parts(s)))
    single = d.map(lambda s: v1.parse_single_example(s, spec))
    return draining(tf, rows, single, ragged)


@case
def wrong_examples(tf, scratch):
    v1 = tf.compat.v1
    f = tf.train.Feature
    one = tf.train.Example(features=tf.train.Features(feature={
        "id": f(int64_list=tf.train.Int64List(value=[1, 2]))})).SerializeToString()
    s = tf.constant(one)
    wrong = [v1.parse_single_example(tf.constant("junk"), {"id": v1.FixedLenFeature([], tf.int64)}),
             v1.parse_example(tf.constant(["junk", "x"]), {"id": v1.FixedLenFeature([], tf.int64)}),
             v1.parse_single_example(s, {"id": v1.FixedLenFeature([], tf.int64)}),
             v1.parse_single_example(s, {"id": v1.FixedLenFeature([2], tf.float32)}),
             v1.parse_single_example(s, {"absent": v1.FixedLenFeature([], tf.int64)}),
             v1.parse_example([s], {"id": v1.FixedLenFeature([], tf.int64)}, example_names=["mine"]),
             v1.parse_example([s], {"id": v1.VarLenFeature(tf.string)})]
    return lambda p: [p.run(w) for w in wrong]


# ---- tables ----

@case
def tables(tf, scratch):
    lookup, v1 = tf.lookup, tf.compat.v1
    vocab, pairs = os.path.join(scratch, "vocab"), os.path.join(scratch, "pairs")
    open(vocab, "w").write("a\nb\nc\n")
    open(pairs, "w").write("x\t10\ny\t20\n")
    whole, number = lookup.TextFileIndex.WHOLE_LINE, lookup.TextFileIndex.LINE_NUMBER
    s = lookup.StaticHashTable(lookup.KeyValueTensorInitializer(["x", "y"], tf.constant([10, 20], tf.int64)), -1)
    i = lookup.StaticHashTable(lookup.KeyValueTensorInitializer(tf.constant([5, 6], tf.int64), [.5, .25]), 9.)
    f = lookup.StaticHashTable(lookup.TextFileInitializer(vocab, tf.string, whole, tf.int64, number), -1)
    r = lookup.StaticHashTable(lookup.TextFileInitializer(vocab, tf.int64, number, tf.string, whole), "?")
    c = lookup.StaticHashTable(lookup.TextFileInitializer(pairs, tf.string, 0, tf.int64, 1), -1)
    oov = lookup.StaticVocabularyTable(lookup.TextFileInitializer(vocab, tf.string, whole, tf.int64, number), 4)
    k = v1.placeholder(tf.string, None)
    n = v1.placeholder(tf.int64, None)
    outs = [(t.lookup(x), x) for t, x in ((s, k), (f, k), (c, k), (oov, k), (i, n), (r, n))]
    sizes = [t.size() for t in (s, f, c, oov, i, r)]

    def play(p):
        feeds = {k: [["x", "b"], ["zz", "c"]], n: [[5, 1], [7, 0]]}
        first = [p.run(o, {x: feeds[x]}) for o, x in outs]
        return [first, p.run(sizes[0]), p.run(v1.tables_initializer()), p.run(v1.tables_initializer()),
                [p.run(o, {x: feeds[x]}) for o, x in outs], p.run(sizes)]
    return play


@case
def mutable_tables(tf, _):
    lookup = tf.lookup.experimental
    m = lookup.MutableHashTable(tf.string, tf.float32, 0.)
    v = lookup.MutableHashTable(tf.int64, tf.int64, [-1, -2])
    d = lookup.DenseHashTable(tf.int64, tf.int64, -1, -7, -8)
    k, w = tf.compat.v1.placeholder(tf.string, [None]), tf.compat.v1.placeholder(tf.float32, [None])
    ops = [m.insert(k, w), m.lookup(k), m.size(), m.remove(k)]
    keys, values = m.export()
    order = tf.argsort(values)
    many = tf.range(10000, dtype=tf.int64)
    big = [d.insert(many, many * 3), d.lookup(many[::1000] - 1), d.size(), d.remove(many[:50]), d.size()]
    wrong = [v.insert([1], [[1, 2, 3]]), d.insert([-7], [1]), d.insert([-8], [1])]
    return lambda p: [
        p.run(ops[0], {k: ["a", "b", "a"], w: [1, 2, 3]}), p.run(ops[1], {k: ["a", "c"]}), p.run(ops[2]),
        p.run([tf.gather(keys, order), tf.gather(values, order)]), p.run(ops[3], {k: ["a", "nobody"]}),
        p.run(ops[1], {k: ["a", "b"]}), p.run(v.insert([3, 4], [[1, 2], [3, 4]])),
        p.run(v.lookup([[4, 5], [3, 3]])), p.run(v.size()), [p.run(b) for b in big],
        [p.run(x)[0] for x in wrong]]


@case
def wrong_tables(tf, scratch):
    lookup = tf.lookup
    bad = os.path.join(scratch, "bad")
    open(bad, "w").write("x\ty\nz\tq\n")
    twice = lookup.StaticHashTable(lookup.KeyValueTensorInitializer(["x", "x"], tf.constant([1, 2], tf.int64)), -1)
    text = lookup.StaticHashTable(lookup.TextFileInitializer(bad, tf.string, 0, tf.int64, 1), -1)
    absent = lookup.StaticHashTable(lookup.TextFileInitializer(
        os.path.join(scratch, "absent"), tf.string, -2, tf.int64, -1), -1)
    return lambda p: [p.run(t._initializer.initialize(t))[0] for t in (twice, text, absent)]


# ---- chosen elements ----

@case
def elements_chosen_by_another_data_set(tf, scratch):
    data = tf.data.Dataset
    parts = [data.range(0, 3), data.range(10, 12), data.range(20, 25)]
    choose = data.from_tensor_slices(tf.constant([0, 1, 1, 2, 1, 0, 2, 0, 0, 2], tf.int64))
    stop = data.choose_from_datasets(parts, choose, stop_on_empty_dataset=True)
    on = data.choose_from_datasets(parts, choose, stop_on_empty_dataset=False)
    wrong = data.choose_from_datasets(parts, data.from_tensor_slices(tf.constant([0, 7], tf.int64)))
    sampled = data.sample_from_datasets(parts, [.5, .3, .2], seed=4, stop_on_empty_dataset=False)
    endless = data.zip((data.random(seed=3), data.random(seed=9).map(lambda v: v % 7))).take(5)
    return draining(tf, stop, on, wrong, sampled, sampled.repeat(2), endless)


@case
def each_value_once(tf, scratch):
    data = tf.data.Dataset
    return draining(tf, data.from_tensor_slices(tf.constant([3, 1, 3, 1, 2], tf.int64)).unique(),
                    data.from_tensor_slices(["a", "", "b", "a", "", "ab"]).unique(),
                    data.from_tensor_slices(tf.constant([[1, 2], [1, 2], [2, 1]])).unique().repeat(2))


@case
def elements_that_fail_are_skipped(tf, scratch):
    data = tf.data.Dataset
    bad = data.range(6).map(lambda v: tf.debugging.check_numerics(1. / tf.cast(v % 3 - 1, tf.float32), "zero"))
    return draining(tf, bad.ignore_errors(), bad.ignore_errors().batch(2).repeat(2))


NAMES = sorted(CASES)


def play(tf, name, ours):
    """What the case answers when this session runs it."""
    import local_session
    scratch = tempfile.mkdtemp(prefix="meshflow-reading")
    try:
        with tf.Graph().as_default() as graph:
            acts = CASES[name](tf, scratch)
            session = local_session.Local(graph, [scratch]) if ours else tf.compat.v1.Session(graph=graph)
            with session:
                text = repr(acts(Player(tf, session.run)))
        return text.replace(scratch, "SCRATCH")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def check(name, progress):
    import differential
    import tensorflow as tf
    report = differential.Report(name)
    progress("tensorflow " + name, 0, report)
    want = play(tf, name, False)
    progress("meshflow " + name, 0, report)
    got = play(tf, name, True)
    if got != want:
        at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        report.fail(name, "differs at\n%s\nTensorFlow:\n%s" % (got[max(0, at - 200):at + 200],
                                                           want[max(0, at - 200):at + 200]))
    report.compared += 1
    return report
