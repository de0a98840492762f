#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instruction sets: the same weights with each of them in float32, one class of bfloat16 in a job, and errors that
name the classes.

Usage: numerics.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`.
"""
import json
import os
import re
import subprocess
import time

import harness
from harness import Skipped, check, test

KINDS = [("mlp", "fashion-mnist", 20), ("fashion-cnn", "fashion-mnist", 6), ("transformer", "synthetic-language", 8),
         ("lstm", "synthetic-text", 8)]


class Bench(harness.Trainings):
    def __init__(self, args):
        super().__init__(args)
        os.chmod(self.dir, 0o700)
        os.environ.update(MESHFLOW_LOG="info", MESHFLOW_RUN_DIR=self.dir)

    def sets(self):
        """The available sets, the lowest first."""
        told = self.run(["version"]).stdout
        return re.search("kernels for (.*?); in use", told)[1].split(", ")

    def two(self):
        """The lowest set and the best; bfloat16 has other bits in the best."""
        all = self.sets()
        if not {"avx512_bf16", "amx"} & set(all):
            raise Skipped("the processor has no instructions for bfloat16")
        return all[0], all[-1]

    def worker(self, index, n, base, command, **environment):
        task = {"cluster": {"worker": ["127.0.0.1:%d" % (base + i) for i in range(n)]},
                "task": {"type": "worker", "index": index}}
        p = subprocess.Popen([self.program, *command], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env={**os.environ, **environment, "TF_CONFIG": json.dumps(task)})
        self.running.append(p)
        return p

    def pair(self, command, second, **environment):
        base = harness.random.randrange(20000, 60000)
        both = [self.worker(0, 2, base, command, **environment),
                self.worker(1, 2, base, command, **environment, MESHFLOW_NUMERICS=second)]
        return [(p.communicate(timeout=120), p.returncode) for p in both]


def result(out):
    return json.loads(out[out.index("{"):])


@test
def float32_weights_are_the_same_in_every_instruction_set(b):
    for model, data, steps in KINDS:
        sha = {s: b.sha("--numerics", s, model=model, data=data, steps=steps) for s in b.sets()}
        check(len(set(sha.values())) == 1, "%s: %s" % (model, sha))


@test
def the_option_the_environment_and_the_result_name_the_set(b):
    lowest, best = b.two()
    of = lambda told: re.search("in use: (.*?);", told)[1]
    check(of(b.run(["version"]).stdout) == best, "not the best")
    check(of(b.run(["--numerics", lowest, "version"]).stdout) == lowest, "not the option's")
    r = subprocess.run([b.program, "version"], env={**os.environ, "MESHFLOW_NUMERICS": lowest}, capture_output=True,
                       text=True)
    check(of(r.stdout) == lowest, "not the environment's")
    for s in lowest, best:
        line = result(b.run(b.train("--numerics", s, "--precision", "bf16", steps=2)).stdout)
        check(line["numerics_class"].startswith("fma+" + best if s == best else "fma "), str(line))
        line = result(b.run(b.train("--numerics", s, steps=2)).stdout)
        check(line["numerics_class"].startswith("fma "), str(line))


@test
def a_set_that_is_unknown_or_absent_is_an_error_with_those_of_the_machine(b):
    said = b.run(["train", "--numerics", "sse9"], code=2).stderr
    check("unknown instruction set 'sse9'" in said and ", ".join(b.sets()) in said, said)
    for s in {"avx2", "avx512", "avx512_bf16", "amx"} - set(b.sets()):
        said = b.run(["train", "--numerics", s], code=2).stderr
        check("instruction set %s is not available" % s in said and ", ".join(b.sets()) in said, said)
    r = subprocess.run([b.program, *b.train(steps=2)], env={**os.environ, "MESHFLOW_NUMERICS": "sse9"},
                       capture_output=True, text=True)
    check(r.returncode == 2 and "MESHFLOW_NUMERICS: unknown instruction set 'sse9'" in r.stderr,
          "%d %s" % (r.returncode, r.stderr))


@test
def a_mixed_job_computes_bfloat16_as_its_lowest_task(b):
    lowest, best = b.two()
    want = b.sha("--numerics", lowest, "--precision", "bf16")
    ends = b.pair(b.train("--precision", "bf16"), lowest)
    check([code for _, code in ends] == [0, 0], str(ends))
    (out, err), _ = ends[0]
    check(result(out)["weights_sha256"] == want, out)
    check(result(out)["numerics_class"].startswith("fma "), out)
    for (_, err), _ in ends:
        check(err.count("numerics: worker 0 has %s, worker 1 has %s; bfloat16 is computed as class fma " %
                        (best, lowest)) == 1, err)


@test
def tasks_of_one_set_say_nothing(b):
    best = b.sets()[-1]
    for (_, err), code in b.pair(b.train(steps=5), best):
        check(code == 0 and "numerics: " not in err, err)


def joined(b, *more):
    """A job of one worker of the best set, and one of the lowest that comes later."""
    lowest, best = b.two()
    base = harness.random.randrange(20000, 60000)
    store = "file:" + b.out("store")
    command = b.train("--store", store, *more, steps=100000)
    first = b.worker(0, 1, base, command)
    end = time.monotonic() + 60
    while not any(t["step"] > 2 for j in jobs(b) for t in j["tasks"]):
        check(first.poll() is None and time.monotonic() < end, "the job does not train")
        time.sleep(0.05)
    return lowest, best, first, b.worker(1, 2, base, command, MESHFLOW_NUMERICS=lowest)


def jobs(b):
    r = subprocess.run([b.program, "job", "status", "--json"], capture_output=True, text=True)
    return json.loads(r.stdout)["jobs"] if r.stdout.startswith("{") else []


@test
def a_late_task_of_a_lower_class_is_refused_by_a_bfloat16_job(b):
    lowest, best, first, late = joined(b, "--precision", "bf16")
    _, err = late.communicate(timeout=60)
    check(late.returncode == 2, "%d %s" % (late.returncode, err))
    check("worker 1 computes bfloat16 as numerics class fma " in err and "and the job as fma+" + best in err, err)
    check(first.poll() is None, "the job ended with it")


@test
def a_late_task_of_a_lower_class_joins_a_float32_job(b):
    lowest, best, first, late = joined(b)
    end = time.monotonic() + 60
    while not any(len(j["tasks"]) == 2 and all(t["step"] > 0 for t in j["tasks"]) for j in jobs(b)):
        check(first.poll() is None and late.poll() is None and time.monotonic() < end, "it did not join")
        time.sleep(0.05)


@test
def a_job_that_continues_in_another_class_says_so(b):
    lowest, best = b.two()
    out = b.out("run")
    train = lambda s, steps: b.run(b.train("--numerics", s, "--precision", "bf16", "--out", out, "--resume",
                                           steps=steps)).stderr
    check("numerics class" not in train(best, 4), "a new run")
    check("numerics class" not in train(best, 6), "the same class")
    said = train(lowest, 8)
    check("was computed as numerics class 'fma+%s " % best in said and "continues as 'fma " in said, said)


if __name__ == "__main__":
    harness.main(Bench)
