# SPDX-License-Identifier: Apache-2.0
# cluster: ps1w1     a text classifier without Python functions: words split, cleaned, looked up in a vocabulary file, counted, trained
from _common import *
v1(); R = {}
texts = ["The cat, the DOG!", "a bird sings; a bird flies", "", "dog dog dog", "café \xfcber"]; labels = [0, 1, 1, 0, 1]
with open(SCRATCH + "/vocabulary", "w") as f: f.write("\n".join(["the", "cat", "dog", "bird", "a"]) + "\n")
with tf.device(tf.train.replica_device_setter(cluster=tf.train.ClusterSpec(CLUSTER))):
    tp, lp = tf.placeholder(tf.string, [None]), tf.placeholder(tf.int64, [None])
    clean = tf.strings.regex_replace(tf.strings.lower(tp, encoding="utf-8"), "[^a-z ]", ""); words = tf.string_split(clean, " ")
    with tf.device("/job:worker/task:0"):
        table = tf.lookup.StaticVocabularyTable(tf.lookup.TextFileInitializer(SCRATCH + "/vocabulary", tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), 3)
        found = table.lookup(words)
        back = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.range(5, dtype=tf.int64), ["the", "cat", "dog", "bird", "a"]), "?").lookup(found.values)
    emb = tf.get_variable("emb", initializer=rnd((8, 4), 1)); mean = tf.nn.safe_embedding_lookup_sparse([emb], found, combiner="mean")
    w = tf.get_variable("w", initializer=rnd((4, 2), 2)); logits = tf.matmul(mean, w)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=lp, logits=logits)); train = tf.train.AdagradOptimizer(.5).minimize(loss)
    dense = tf.sparse.to_dense(words, default_value=""); pairs = tf.strings.join([dense[:, :-1], dense[:, 1:]], "_"); buckets = tf.strings.to_hash_bucket_fast(pairs, 100)
    lengths = tf.strings.length(tp, unit="UTF8_CHAR"); starts = tf.strings.substr(tp, tf.zeros_like(lengths), tf.minimum(lengths, 3), unit="UTF8_CHAR"); bag = tf.math.bincount(tf.cast(found.values, tf.int32), minlength=8)
    unique, place, count = tf.unique_with_counts(words.values); joined = tf.strings.reduce_join(dense, 1, separator="|"); numbers = tf.strings.to_number(tf.strings.as_string(lengths), tf.int32)
with tf.Session(TARGET) as s:
    s.run([tf.global_variables_initializer(), tf.tables_initializer()]); f = {tp: texts, lp: labels}
    R["parts"] = s.run([clean, words, found, back, pairs, buckets, lengths, starts, bag, unique, count, joined, numbers, table.size()], f)
    R["losses"] = [s.run([loss, train], f)[0] for _ in range(6)]; R["emb"] = s.run(emb)
    R["bad"] = err(lambda: s.run(tf.strings.to_number(tf.constant("twelve"))), "twelve")
emit(**R)
