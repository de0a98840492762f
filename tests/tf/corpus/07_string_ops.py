# SPDX-License-Identifier: Apache-2.0
# cluster: local1     string kernels
from _common import *
v1()
s = tf.placeholder(tf.string, [None])
R = dict(join=tf.string_join([s, s], "-"), rjoin=tf.reduce_join(s, 0, separator=","), split=tf.string_split(s, " "), sub=tf.strings.substr(s, 0, 3), num=tf.string_to_number(["1.5", "-2"]), hashf=tf.string_to_hash_bucket_fast(s, 1000), hashs=tf.string_to_hash_bucket_strong(s, 1000, [1, 2]), asstr=tf.as_string([1.5, 2.25], precision=2), asint=tf.as_string([7, -8]), length=tf.strings.length(s), upper=tf.strings.upper(s), lower=tf.strings.lower(s), strip=tf.strings.strip(s), regex=tf.strings.regex_replace(s, "o+", "0"), match=tf.strings.regex_full_match(s, "hello.*"), b64=tf.encode_base64(s), unb64=tf.decode_base64(tf.encode_base64(s)), raw=tf.decode_raw(["\x01\x00\x02\x00"], tf.int16), eq=tf.equal(s, "hello world"), gather=tf.gather(s, [1, 0]), csv=tf.decode_csv(["1,2.5,abc", "3,4.5,def"], [[0], [0.], [""]]), fmt=tf.strings.format("v={}", [tf.constant([1, 2])]), bytes=tf.strings.bytes_split(["ab"]).to_sparse(), ujoin=tf.strings.unsorted_segment_join(["a", "b", "c"], [0, 1, 0], 2))
with tf.Session(TARGET) as sess:
    emit(**sess.run(R, {s: ["hello world", "  foo bar baz "]}))
