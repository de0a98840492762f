# SPDX-License-Identifier: Apache-2.0
# cluster: ps1w1     tf.data pipelines of several kinds behind one feedable and one reinitializable iterator
from _common import *
v1(); R = {}
for i in range(3): open(SCRATCH + "/part%d.csv" % i, "w").write("".join("%d,%d.5,%s\n" % (i * 10 + j, j, "ab"[j % 2]) for j in range(4)))
D = tf.data.Dataset
def csv(line): n, v, c = tf.io.decode_csv(line, [[0], [0.], [""]]); return n, v * 2, tf.where(tf.equal(c, "a"), 1, 2)
files = D.list_files(SCRATCH + "/part*.csv", shuffle=False).interleave(tf.data.TextLineDataset, cycle_length=2, block_length=2).map(csv, num_parallel_calls=2)
train = files.filter(lambda n, v, c: tf.not_equal(n % 5, 1)).shuffle(4, seed=5, reshuffle_each_iteration=True).repeat(2).batch(4).prefetch(1)
test = files.take(5).batch(4, drop_remainder=False)
padded = D.range(1, 5).map(lambda n: tf.fill([n], n)).padded_batch(3, [None], padding_values=tf.constant(-1, tf.int64))
windows = D.range(7).window(3, shift=2, drop_remainder=True).flat_map(lambda w: w.batch(3)); zipped = D.zip((D.range(3), D.from_tensor_slices({"a": [1., 2., 3.], "b": ["x", "y", "z"]}))).enumerate(start=5)
sums = D.range(10).batch(4).map(lambda v: tf.cond(tf.reduce_sum(v) > 10, lambda: v * 100, lambda: v)).unbatch().skip(1).apply(tf.data.experimental.dense_to_ragged_batch(5)) if False else D.range(10).batch(4).map(lambda v: tf.cond(tf.reduce_sum(v) > 10, lambda: v * 100, lambda: v)).unbatch().skip(1)
scanned = D.range(6).apply(tf.data.experimental.scan(tf.constant(0, tf.int64), lambda s, v: (s + v, s + v))).apply(tf.data.experimental.take_while(lambda v: v < 12)); sampled = tf.data.experimental.sample_from_datasets([D.range(0, 4), D.range(100, 104)], [.5, .5], seed=3)
def drain(s, nxt, feed=None):
    out = []
    while True:
        try: out.append(s.run(nxt, feed))
        except tf.errors.OutOfRangeError: return out
with tf.device("/job:worker/task:0"):
    switch = tf.data.Iterator.from_structure(tf.data.get_output_types(train), tf.data.get_output_shapes(train)); nxt = switch.get_next(); to_train, to_test = switch.make_initializer(train), switch.make_initializer(test)
    handle = tf.placeholder(tf.string, []); feedable = tf.data.Iterator.from_string_handle(handle, tf.int64, None); value = feedable.get_next()
    it = [tf.data.make_initializable_iterator(d) for d in (padded, windows, sums, scanned, sampled)]; handles = [i.string_handle() for i in it]; z = tf.data.make_one_shot_iterator(zipped).get_next()
    bad = tf.data.make_initializable_iterator(D.range(4).map(lambda v: tf.debugging.check_numerics(1. / tf.cast(v - 1, tf.float32), "one over zero"))); bad_next = bad.get_next(); total = D.range(5).reduce(tf.constant(0, tf.int64), lambda a, b: a + b * b)
with tf.Session(TARGET) as s:
    for name, op in (("train", to_train), ("test", to_test), ("again", to_train)): s.run(op); R[name] = drain(s, nxt)
    hs = s.run(handles); s.run([i.initializer for i in it]); R["fed"] = [drain(s, value, {handle: h}) for h in hs]; R["zip"] = drain(s, z); R["total"] = s.run(total)
    s.run(bad.initializer); R["bad"] = [s.run(bad_next), err(lambda: s.run(bad_next), "one over zero"), s.run(bad_next)]
    R["unready"] = err(lambda: s.run(tf.data.make_initializable_iterator(D.range(2)).get_next()))
emit(**R)
