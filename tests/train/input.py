#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How data reach the workers: sliced by file or element, near, cached, and read by threads.

Usage: input.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Training alone is the oracle.
"""
import glob
import json
import os
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

    def train(self, data, *more, **kind):
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
def sliced_by_file_training_goes_on_with_other_workers(b):
    data = b.files()
    want = b.sha(data, "--slice", "file")
    out = b.out("run")
    for steps, workers in (7, 2), (19, 0), (26, 3), (30, 1):
        got = b.sha(data, "--slice", "file", "--out", out, "--resume", steps=steps, workers=workers)
    check(got == want, "other weights after going on")
    audit = json.loads(b.run(["audit", "--json", out]).stdout)
    check(audit["ok"] and audit["last_step"] == 30, str(audit))


@test
def another_slice_is_refused_on_going_on(b):
    data = b.files()
    out = b.out("run")
    b.sha(data, "--out", out, steps=5)
    go_on = "--out", out, "--resume"
    r = b.run(b.train(data, "--slice", "file", *go_on), code=1)
    check("sliced by element, now it is sliced by file" in r.stderr, r.stderr)
    out = b.out("by-file")
    go_on = "--out", out, "--resume"
    b.sha(data, "--slice", "file", "--out", out, steps=5)
    r = b.run(b.train(data, *go_on), code=1)
    check("use --slice file" in r.stderr, r.stderr)
    r = b.run(b.train(data, "--slice", "file", *go_on, batch=16), code=1)
    check("use --batch 32" in r.stderr, r.stderr)
    os.remove(b.out("part-2.tfrecord"))
    r = b.run(b.train(data, "--slice", "file", *go_on), code=1)
    check("other files" in r.stderr, r.stderr)
    r = b.run(b.train(data, "--slice", "line"), code=2)
    check("element or file" in r.stderr, r.stderr)


# ---- cached ----

def lose_files_after_the_first_epoch(b, *more, **kind):
    """The files are emptied once every sample was used; how training ends then."""
    data = b.files()
    out = b.out("run")
    training, = b.start([b.train(data, "--out", out, *more, **kind)])
    harness.await_checkpoint(out)  # one comes with the end of each epoch
    for path in glob.glob(data):
        os.truncate(path, 0)
    check(training.poll() is None, "it was over before the files were")
    stdout, stderr = training.communicate(timeout=120)
    return training.returncode, stdout, stderr


@test
def after_the_first_epoch_files_are_not_read_any_more(b):
    kind = dict(steps=120)
    want = b.sha(b.files(), "--cache", "off", **kind)
    for slices in "element", "file":
        code, stdout, stderr = lose_files_after_the_first_epoch(b, "--slice", slices, **kind)
        check(code == 0, stderr)
        got = json.loads(stdout.splitlines()[-1])["weights_sha256"]
        check((got == want) == (slices == "element"), "sliced by %s: %s, %s" % (slices, got, want))
        shutil.rmtree(b.out("run"))
    code, _, stderr = lose_files_after_the_first_epoch(b, "--cache", "off", steps=1000000)
    check(code == 1 and "is cut" in stderr, "they are read: %d, %s" % (code, stderr))


if __name__ == "__main__":
    harness.main(Bench)
