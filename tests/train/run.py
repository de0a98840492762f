#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training by the program: killed, resumed, with damaged files and full disks.

Usage: run.py PROGRAM [--kills N] [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. The undisturbed run is the oracle:
after whatever happened on the way, weights_sha256 must be the same.
"""
import glob
import json
import os
import random
import resource
import signal
import subprocess
import time

import harness
from harness import check, test

STEPS = 60


class Bench(harness.Bench):
    def __init__(self, args):
        super().__init__(args)
        self.kills = args.kills
        self.random = random.Random(1)  # of when to kill; results must not depend on it

    def command(self, *more, model="mlp", data="fashion-mnist", steps=STEPS, batch=32, seed=3):
        return [self.program, "train", "--model", model, "--data", data, "--batch",
                str(batch), "--optimizer", "adam", "--seed", str(seed), "--steps", str(steps), "--quiet",
                "--no-test", "--json", *more]

    def run(self, *more, code=0, limit=None, **kind):
        def set_limit():
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        r = subprocess.run(self.command(*more, **kind), capture_output=True, text=True, timeout=300,
                           preexec_fn=set_limit)
        check(r.returncode == code, "exit code %d, not %d: %s" % (r.returncode, code, r.stderr))
        return r

    def sha(self, *more, **kind):
        return json.loads(self.run(*more, **kind).stdout.splitlines()[-1])["weights_sha256"]


# ---- the same weights ----

@test
def weights_are_the_same_for_1_to_4_threads(b):
    first = b.sha("--threads", "1", model="fashion-cnn", steps=50, batch=16)
    for threads in "2", "3", "4":
        sha = b.sha("--threads", threads, model="fashion-cnn", steps=50, batch=16)
        check(sha == first, "%s threads: %s, one: %s" % (threads, sha, first))


@test
def every_model_of_the_zoo_is_the_same_with_sequential_shards(b):
    sets = {"lstm vocabulary=64": "synthetic-sequence", "text-cnn vocabulary=256": "synthetic-text",
            "transformer": "synthetic-language", "wide-deep": "synthetic-ctr"}
    listed = subprocess.run([b.program, "models"], capture_output=True, text=True).stdout
    for model in ["mlp", "fashion-cnn", "cnn", "cnn-small", "resnet8", "resnet20", *sets]:
        check(model.split()[0] in listed, "no model %s" % model)
        kind = dict(model=model, data=sets.get(model, "fashion-mnist"), steps=2, batch=13)
        together = b.sha("--shards", "6", **kind)
        apart = b.sha("--shards", "6", "--disable", "shards", **kind)
        check(together == apart, "%s: %s together, %s apart" % (model, together, apart))


@test
def recomputation_gives_the_same_weights(b):
    for model, data in (("resnet8", "fashion-mnist"), ("lstm vocabulary=64", "synthetic-sequence"),
                        ("transformer", "synthetic-language"), ("wide-deep", "synthetic-ctr")):
        kind = dict(model=model, data=data, steps=3, batch=13)
        kept = b.sha(**kind)
        for segments in "layers", "3":
            again = b.sha("--recompute", segments, **kind)
            check(again == kept, "%s, %s: %s, kept: %s" % (model, segments, again, kept))


@test
def a_resumed_run_gives_the_same_weights(b):
    out = b.out("stops")
    for steps in 7, 20, 41:
        b.run("--out", out, "--resume", "--save-steps", "10", steps=steps)
    check(b.sha("--out", out, "--resume") == b.sha(), "other weights after going on")


@test
def a_run_without_locks_resumes_with_the_same_weights(b):
    """Updates write in place then, also while a checkpoint of the values is being written."""
    out = b.out("hogwild")
    for steps in 7, 20, 41:
        b.run("--out", out, "--resume", "--save-steps", "1", "--hogwild", steps=steps)
    check(b.sha("--out", out, "--resume", "--hogwild") == b.sha(), "other weights after going on")


# ---- kill ----

def newest(out):
    found = glob.glob(os.path.join(out, "model.ckpt-*.index"))
    return max(found, key=lambda p: int(p.split("-")[-1].split(".")[0])) if found else None


def kill_once(b, command, longest):
    """Starts it and kills it after a random time; returns whether it was killed, and during a save."""
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = p.communicate(timeout=b.random.uniform(0.02, longest))
        check(p.returncode == 0, err)
        return False
    except subprocess.TimeoutExpired:
        p.send_signal(signal.SIGKILL)
        p.communicate()
        return True


@test
def a_run_killed_at_random_moments_resumes_with_the_same_weights(b):
    start = time.monotonic()
    want = b.sha("--save-steps", "1", "--out", b.out("whole"), batch=64)
    longest = max(0.2, time.monotonic() - start)
    killed, in_save, round_ = 0, 0, 0
    while killed < b.kills or in_save == 0:
        out = b.out("killed-%d" % round_)
        round_ += 1
        check(round_ < 50 * b.kills, "cannot be hit while it saves")
        command = b.command("--out", out, "--resume", "--save-steps", "1", batch=64)
        while killed < b.kills or in_save == 0:
            if not kill_once(b, command, longest):
                break
            killed += 1
            in_save += bool(glob.glob(os.path.join(out, "*.tmp-*")))
        got = b.sha("--out", out, "--resume", "--save-steps", "1", batch=64)
        check(got == want, "after %d kills: %s, not %s" % (killed, got, want))
        check(not glob.glob(os.path.join(out, "*.tmp-*")), "temporary files stay in %s" % out)
        audit = subprocess.run([b.program, "audit", out], capture_output=True, text=True)
        check(audit.returncode == 0, "samples: %s%s" % (audit.stdout, audit.stderr))
    print("# %d kills, %d of them in the middle of a save" % (killed, in_save))


# ---- damage ----

def with_checkpoints(b, name):
    out = b.out(name)
    b.run("--out", out, "--save-steps", "20", steps=40)
    return out


@test
def a_damaged_checkpoint_is_named_and_the_previous_one_is_used(b):
    want = b.sha()
    for what in "index", "data-00000-of-00001":
        for way in "cut", "flipped", "empty":
            out = with_checkpoints(b, "damage-%s-%s" % (what, way))
            path = newest(out).replace("index", what)
            data = bytearray(open(path, "rb").read())
            if way == "flipped":
                data[len(data) // 2] ^= 4
            else:
                del data[len(data) // 2 if way == "cut" else 0:]
            open(path, "wb").write(data)
            r = b.run("--out", out, "--resume", "--save-steps", "20")
            check("model.ckpt-40 is damaged" in r.stderr, "%s %s: not said: %s" % (what, way, r.stderr))
            sha = json.loads(r.stdout.splitlines()[-1])["weights_sha256"]
            check(sha == want, "%s %s: other weights" % (what, way))


@test
def resume_without_a_valid_checkpoint_fails(b):
    out = with_checkpoints(b, "all-damaged")
    for path in glob.glob(os.path.join(out, "*.index")):
        open(path, "wb").write(b"no index")
    r = b.run("--out", out, "--resume", code=3)
    check("no checkpoint in" in r.stderr and "is complete" in r.stderr, r.stderr)


@test
def resume_rejects_another_seed_or_number_of_shards(b):
    out = with_checkpoints(b, "other")
    r = b.run("--out", out, "--resume", "--shards", "5", code=2, seed=4)
    check("--seed was 3 and is 4, --shards was 8 and is 5" in r.stderr, r.stderr)
    os.remove(os.path.join(out, "model.json"))  # also in checkpoints
    r = b.run("--out", out, "--resume", code=2, seed=4)
    check("was made with seed 3" in r.stderr, r.stderr)
    r = b.run("--out", out, "--resume", "--shards", "5", code=2)
    check("was made with shards 8" in r.stderr, r.stderr)


# ---- fine-tuning ----

@test
def frozen_weights_keep_their_bits_and_the_others_learn(b):
    b.run("--out", b.out("first"), steps=20)
    b.run("--init", b.out("first"), "--freeze", "dense/*", "--out", b.out("second"), steps=20, seed=4)
    r = subprocess.run([b.program, "ckpt", "diff", b.out("first"), b.out("second")],
                       capture_output=True, text=True)
    check("dense_1/kernel: " in r.stdout, "the head did not learn: %s" % r.stdout)
    check("dense/kernel:" not in r.stdout.replace("dense/kernel/", "") and "dense/bias:" not in r.stdout,
          "frozen weights moved: %s" % r.stdout)
    r = b.run("--freeze", "no_such_layer*", code=2)
    check("there is no weight" in r.stderr, r.stderr)


# ---- disks ----

@test
def a_full_disk_is_reported_and_training_continues(b):
    r = b.run("--out", b.out("full"), "--save-steps", "20", code=1, limit=100000)
    check("step 20 was not written" in r.stderr and "last checkpoint could not be written" in r.stderr, r.stderr)
    sha = json.loads(r.stdout.splitlines()[-1])["weights_sha256"]
    check(sha == b.sha(), "other weights")
    check(newest(b.out("full")) is None, "a checkpoint that does not fit was left")


@test
def a_folder_that_cannot_be_created_is_reported_at_once(b):
    path = b.out("file")
    open(path, "w").close()
    r = b.run("--out", os.path.join(path, "below"), code=2)
    check("cannot create" in r.stderr, r.stderr)


@test
def old_checkpoints_are_removed(b):
    out = b.out("keep")
    b.run("--out", out, "--save-steps", "5", "--keep", "3")
    kept = sorted(os.path.basename(p) for p in glob.glob(os.path.join(out, "*.index")))
    check(kept == ["model.ckpt-50.index", "model.ckpt-55.index", "model.ckpt-60.index"], str(kept))


if __name__ == "__main__":
    options = harness.parser()
    options.add_argument("--kills", type=int, default=10)
    harness.main(Bench, options)
