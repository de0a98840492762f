# SPDX-License-Identifier: Apache-2.0
# cluster: local1     TFRecord + tf.Example read server-side: TFRecordDataset, parse_example, parse_single_example, TextLine, FixedLength, WriteFile/ReadFile, MatchingFiles
from _common import *
v1()
fn = SCRATCH + "/d.tfrecord"
with tf.python_io.TFRecordWriter(fn) as w:
    for i in range(4):
        w.write(tf.train.Example(features=tf.train.Features(feature={"id": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])), "x": tf.train.Feature(float_list=tf.train.FloatList(value=[i * .5, i + 1.])), "tags": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"t%d" % k for k in range(i)]))})).SerializeToString())
open(SCRATCH + "/l.txt", "w").write("one\ntwo\nthree\n"); open(SCRATCH + "/f.bin", "wb").write(bytes(range(8)))
spec = {"id": tf.FixedLenFeature([], tf.int64), "x": tf.FixedLenFeature([2], tf.float32), "tags": tf.VarLenFeature(tf.string)}
nx = tf.data.make_one_shot_iterator(tf.data.TFRecordDataset(fn).batch(4).map(lambda s: tf.parse_example(s, spec))).get_next()
n1 = tf.data.make_one_shot_iterator(tf.data.TFRecordDataset(fn).map(lambda s: tf.parse_single_example(s, {k: spec[k] for k in ("id", "x")}))).get_next()
tl = tf.data.make_one_shot_iterator(tf.data.TextLineDataset(SCRATCH + "/l.txt")).get_next(); fl = tf.data.make_one_shot_iterator(tf.data.FixedLengthRecordDataset(SCRATCH + "/f.bin", 4).map(lambda s: tf.decode_raw(s, tf.uint8))).get_next()
rk, rv = tf.TFRecordReader().read(tf.train.string_input_producer([fn], shuffle=False))
R = {}
with tf.Session(TARGET) as s:
    R["batch"] = s.run(nx); R["single"] = [s.run(n1) for _ in range(2)]; R["text"] = [s.run(tl) for _ in range(3)]; R["fixed"] = [s.run(fl) for _ in range(2)]
    s.run(tf.write_file(SCRATCH + "/o.txt", "written")); R["file"] = s.run(tf.read_file(SCRATCH + "/o.txt")); R["match"] = len(s.run(tf.matching_files(SCRATCH + "/*.t*")))
    R["nofile"] = err(lambda: s.run(tf.read_file(SCRATCH + "/absent")), "No such file")
    R["bad"] = err(lambda: s.run(tf.parse_single_example(tf.constant("junk"), {"id": spec["id"]})), "Could not parse")
emit(**R)
