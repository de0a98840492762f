# SPDX-License-Identifier: Apache-2.0
# cluster: local1     HashTableV2, MutableHashTableV2, initializers from tensors and files, index/string lookups
from _common import *
v1()
open(SCRATCH + "/vocab.txt", "w").write("a\nb\nc\n")
t = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["x", "y"], tf.constant([10, 20], tf.int64)), -1); f = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(SCRATCH + "/vocab.txt", tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), -1); v = tf.lookup.StaticVocabularyTable(tf.lookup.TextFileInitializer(SCRATCH + "/vocab.txt", tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), 4)
m = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, 0.); k = tf.placeholder(tf.string, [None])
with tf.Session(TARGET) as s:
    R = dict(uninit=err(lambda: s.run(t.lookup(k), {k: ["x"]}), "Table not initialized")); s.run(tf.tables_initializer()); s.run(m.insert(["p", "q"], [1.5, 2.5]))
    R.update(t=s.run(t.lookup(k), {k: ["y", "z"]}), f=s.run(f.lookup(k), {k: ["c", "zz"]}), oov=s.run(v.lookup(k), {k: ["b", "zz", "a"]}), m=s.run(m.lookup(k), {k: ["q", "r"]}), size=s.run([t.size(), m.size()])); ex = s.run(m.export()); R["export"] = sorted((a.decode(), float(b)) for a, b in zip(*ex))
emit(**R)
