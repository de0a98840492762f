#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How data reach the workers: sliced by file or element, near, cached, and read by threads.

Usage: input.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Training alone is the oracle.
"""
import glob
import json
import os
import re
import shutil

import harness
from harness import check, test

SIZES = 40, 91, 17, 60, 33, 25, 74  # samples of each file


class Bench(harness.Trainings):
    def files(self):
        """TFRecord files; a pattern that names them."""
        for i, n in enumerate(SIZES):
            self.run(["data", "convert", "synthetic-sequence", self.out("part-%d.tfrecord" % i),
                      "--set", "count=%d seed=%d" % (n, i)])
        return self.out("part-*.tfrecord")

    def tables(self):
        """The same with columns of numbers, for models without embeddings."""
        for i, n in enumerate(SIZES):
            table, to = self.out("%d.csv" % i), self.out("table-%d.tfrecord" % i)
            with open(table, "w") as f:
                f.write("a,b,c,y\n")
                f.writelines("%d,%d,%d,%d\n" % (k % 7, k % 5, i, k % 7 > k % 5) for k in range(n))
            self.run(["data", "convert", table, to, "--set", "label=y"])
        return self.out("table-*.tfrecord")

    def train(self, data, *more, **kind):
        if "table" in data:
            return super().train("--test", data, "--set", "columns='x:float[3] label:int32' classes=2",
                                 *more, data=data, **kind)
        return super().train("--test", data, "--set",
                             "columns='tokens:int32[32] label:int32' classes=2", *more,
                             **{**dict(model="text-cnn vocabulary=16", data=data, steps=30), **kind})


# ---- slices ----

@test
def sliced_by_file_all_numbers_of_workers_give_the_same_weights(b):
    data = b.files()
    out = b.out("run")
    want = b.sha(data, "--slice", "file", "--out", out)
    check(want != b.sha(data), "the order is that of elements")
    for strategy, workers in (None, 1), (None, 2), (None, 3), ("mirrored replicas=2", 0), (
            "reduce_to_one", 2):
        got = b.sha(data, "--slice", "file", workers=workers, strategy=strategy)
        check(got == want, "%s, %d workers: %s, alone: %s" % (strategy, workers, got, want))
    audit = json.loads(b.run(["audit", "--json", out]).stdout)
    check(audit["ok"] and audit["slice"] == "file" and audit["epochs"] >= 2, str(audit))


@test
def sliced_by_file_training_resumes_with_other_workers(b):
    data = b.files()
    want = b.sha(data, "--slice", "file")
    out = b.out("run")
    for steps, workers in (7, 2), (19, 0), (26, 3), (30, 1):
        got = b.sha(data, "--slice", "file", "--out", out, "--resume", steps=steps, workers=workers)
    check(got == want, "other weights after going on")
    audit = json.loads(b.run(["audit", "--json", out]).stdout)
    check(audit["ok"] and audit["last_step"] == 30, str(audit))


@test
def another_slicing_is_rejected_on_resume(b):
    data = b.files()
    out = b.out("run")
    b.sha(data, "--out", out, steps=5)
    go_on = "--out", out, "--resume"
    r = b.run(b.train(data, "--slice", "file", *go_on), code=2)
    check("--slice was element and is file" in r.stderr, r.stderr)
    os.remove(os.path.join(out, "model.json"))  # also in checkpoints
    r = b.run(b.train(data, "--slice", "file", *go_on), code=2)
    check("sliced by element, now it is sliced by file" in r.stderr, r.stderr)
    out = b.out("by-file")
    go_on = "--out", out, "--resume"
    b.sha(data, "--slice", "file", "--out", out, steps=5)
    r = b.run(b.train(data, "--slice", "file", "--allow-changes", *go_on, batch=16), code=2)
    check("use --batch 32" in r.stderr, r.stderr)
    os.remove(os.path.join(out, "model.json"))
    r = b.run(b.train(data, *go_on), code=2)
    check("use --slice file" in r.stderr, r.stderr)
    r = b.run(b.train(data, "--slice", "file", *go_on, batch=16), code=2)
    check("use --batch 32" in r.stderr, r.stderr)
    os.remove(b.out("part-2.tfrecord"))
    r = b.run(b.train(data, "--slice", "file", *go_on), code=2)
    check("other files" in r.stderr, r.stderr)
    r = b.run(b.train(data, "--slice", "line"), code=2)
    check("element or file" in r.stderr, r.stderr)


# ---- near ----

def shards_near(b, data, nears, *more, **kind):
    """What each worker takes when it has those files near, and the weights in the end."""
    workers = b.start([b.train(data, "--slice", "file", "--near", near, *more, **kind)
                       for near in nears], {"MESHFLOW_LOG": "info"})
    ends = [w.communicate(timeout=120) for w in workers]
    check(all(w.returncode == 0 for w in workers), str(ends))
    line = re.search("by data locality: workers have (.*); (.*) % of", ends[0][1])
    check(line, ends[0][1])
    shares = re.findall(r"(\d+) from (\d+) on", line[1])
    return ([(int(first), int(n)) for n, first in shares], int(line[2]),
            json.loads(ends[0][0].splitlines()[-1])["weights_sha256"])


@test
def workers_take_the_shards_whose_files_are_local(b):
    more = "--shards", "4"
    # The largest files open the first two streams: 1 and 6.
    far, near = "*-[16].tfrecord", "*-[30452].tfrecord"
    trimmed = dict(strategy="multi_worker_mirrored aggregation=trimmed_mean trim=0.3", batch=30)
    for data, kind in (b.tables(), trimmed), (b.files(), dict(strategy="reduce_to_one")), (
            b.files(), dict(steps=10, optimizer="adam")):
        want = b.sha(data, "--slice", "file", *more, workers=1, **kind)
        shares, percent, got = shards_near(b, data, (near, far), *more, **kind)
        check(percent == 100 and shares[0][0] > shares[1][0] == 0, "%s: %s" % (kind, shares))
        check(got == want, "%s: %s, alone: %s" % (kind, got, want))
    shares, percent, _ = shards_near(b, data, (far, near), *more, steps=2)
    check(percent == 100 and shares[1][0] > shares[0][0] == 0, str(shares))
    shares, percent, _ = shards_near(b, data, ("/nowhere/*", "*.csv:*.png"), *more, steps=2)
    check(shares[1][0] > shares[0][0] == 0, "they have moved: %s" % shares)


@test
def codecs_and_unequal_shares_work_with_locality(b):
    data = b.files()
    codec = "--codec", "int8"
    nears = "part-[0245]*", "part-3*:part-6*", b.out("part-1.*")
    want = b.sha(data, "--slice", "file", *codec, steps=10)
    shares, _, got = shards_near(b, data, nears, *codec, steps=10)
    check(sorted(shares) != shares, "nobody has moved: %s" % shares)
    check(sum(n for _, n in shares) == 8, str(shares))
    check(got == want, "%s, alone: %s" % (got, want))


@test
def workers_that_lease_batches_can_slice_by_file(b):
    data = b.files()
    out = b.out("run")
    mode = "--strategy", "parameter_server mode=async"
    launch = "launch", "--workers", "2", "--ps", "1", "--"
    common = "--slice", "file", "--out", out, "--resume"
    b.run([*launch, *b.train(data, *common, *mode, steps=20)])
    b.run([*launch, *b.train(data, *common, *mode, "--near", "part-[123]*", steps=30)])
    r = b.run(b.train(data, *common, steps=40), code=2)
    check("sliced by file and batch, now it is sliced by file" in r.stderr, r.stderr)


# ---- cached ----

def lose_files_after_the_first_epoch(b, *more, **kind):
    """The files are emptied once every sample was used; how training ends then."""
    data = b.files()
    out = b.out("run")
    training, = b.start([b.train(data, "--out", out, *more, **kind)])
    harness.await_checkpoint(out)  # one at the end of each epoch
    for path in glob.glob(data):
        os.truncate(path, 0)
    check(training.poll() is None, "it was over before the files were")
    stdout, stderr = training.communicate(timeout=120)
    return training.returncode, stdout, stderr


@test
def files_are_not_read_after_the_first_epoch(b):
    kind = dict(steps=120)
    want = b.sha(b.files(), "--cache", "off", **kind)
    for slices in "element", "file":
        code, stdout, stderr = lose_files_after_the_first_epoch(b, "--slice", slices, **kind)
        check(code == 0, stderr)
        got = json.loads(stdout.splitlines()[-1])["weights_sha256"]
        check((got == want) == (slices == "element"), "sliced by %s: %s, %s" % (slices, got, want))
        shutil.rmtree(b.out("run"))
    code, _, stderr = lose_files_after_the_first_epoch(b, "--cache", "off", steps=1000000)
    check(code == 2 and "is cut" in stderr, "they are read: %d, %s" % (code, stderr))


if __name__ == "__main__":
    harness.main(Bench)
