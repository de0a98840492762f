#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training with parameter servers, as processes of this machine.

Usage: servers.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. One process that trains alone is the
oracle of synchronous training: weights_sha256 must be the same.
"""
import json
import os
import re
import signal
import subprocess
import time

import harness
from harness import check, test


class Bench(harness.Bench):
    def train(self, *more, steps=20, model="mlp", data="fashion-mnist", batch=30, optimizer="adam"):
        return ["train", "--model", model, "--data", data, "--batch", str(batch), "--optimizer",
                optimizer, "--steps", str(steps), "--quiet", "--no-test", "--json", *more]

    def launch(self, workers, ps, args):
        return [self.program, "launch", "--workers", str(workers), "--ps", str(ps), "--json", "--",
                *args]

    def run(self, command, code=0):
        r = subprocess.run(command, capture_output=True, text=True, timeout=120)
        check(r.returncode == code or (code is None and r.returncode != 0),
              "%s: exit code %d: %s" % (" ".join(command), r.returncode, r.stderr[-1000:]))
        lines = [x for x in r.stdout.splitlines() if x.startswith("{")]
        return (json.loads(lines[-1]) if lines else None), r.stderr

    def alone(self, *more, **kind):
        return self.run([self.program, *self.train(*more, **kind)])[0]

    def served(self, workers, ps, *more, **kind):
        return self.run(self.launch(workers, ps, self.train(*more, **kind)))[0]


@test
def synchronous_servers_give_the_bits_of_one_process(b):
    kinds = [dict(model="mlp"), dict(model="mlp", batch=3, optimizer="lamb"),
             dict(model="wide-deep", data="synthetic-ctr", optimizer="ftrl", steps=8),
             dict(model="cnn-small", steps=4, optimizer="momentum")]
    for kind in kinds:
        want = b.alone(**kind)["weights_sha256"]
        for workers, ps in ((1, 1), (2, 1), (3, 2), (2, 3)):
            got = b.served(workers, ps, **kind)
            check(got["weights_sha256"] == want and got["workers"] == workers,
                  "%s: %d workers and %d servers differ" % (kind, workers, ps))


@test
def a_checkpoint_of_the_servers_is_that_of_one_process(b):
    out = os.path.join(b.dir, "ckpt")
    want = b.alone(steps=30)["weights_sha256"]
    b.served(2, 2, "--out", out, "--save-steps", "5", steps=15)
    got = b.alone("--out", out, "--resume", steps=30)  # slots and all
    check(got["weights_sha256"] == want, "going on alone from what servers saved differs")
    got = b.served(3, 1, "--out", out, "--resume", steps=30)
    check(got["weights_sha256"] == want, "nothing was left to do, and yet it differs")


def victims(pid):
    """The tasks that a launcher has started, by name."""
    found = {}
    for child in open("/proc/%d/task/%d/children" % (pid, pid)).read().split():
        try:
            env = open("/proc/%s/environ" % child, "rb").read()
        except OSError:
            continue
        m = re.search(rb'"task":\s*{"type":\s*"(\w+)",\s*"index":\s*(\d+)', env)
        if m:
            found["%s %s" % (m.group(1).decode(), m.group(2).decode())] = int(child)
    return found


@test
def whoever_is_killed_is_named_by_the_others(b):
    for victim in ("ps 0", "worker 1"):
        p = subprocess.Popen(b.launch(2, 2, b.train(steps=100000)), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        time.sleep(1.5)
        found = victims(p.pid)
        check(victim in found, "%s is not among %s" % (victim, found))
        os.kill(found[victim], signal.SIGKILL)
        begin = time.monotonic()
        _, err = p.communicate(timeout=30)
        check(p.returncode != 0, "nobody minds that %s is gone" % victim)
        check(time.monotonic() - begin < 10, "it took long")
        said = [x for x in err.splitlines() if victim in x and "gone" in x]
        check(said, "nobody names %s: %s" % (victim, err[-600:]))


@test
def asynchronous_workers_do_every_batch_once_and_end(b):
    for mode, steps in (("async", 500), ("semi staleness=1", 500), ("semi staleness=0", 500),
                        ("semi quorum=2", 1000), ("async period=4", 2000)):  # as many updates, about
        args = b.train("--strategy", "parameter_server mode=%s" % mode, "--lr", "0.001", steps=steps)
        args.remove("--no-test")
        got = b.run(b.launch(3, 2, args))[0]
        check(got["steps"] == steps, "%s: %d steps" % (mode, got["steps"]))
        check(got["accuracy"] > 0.65, "%s does not learn: %g" % (mode, got["accuracy"]))


@test
def a_loss_that_is_no_number_ends_all_and_is_said(b):
    _, err = b.run(b.launch(2, 1, b.train("--lr", "1e30", steps=50, optimizer="sgd")), code=None)
    check("the loss is no number" in err, err[-400:])


@test
def a_strategy_without_servers_says_how_to_get_some(b):
    _, err = b.run([b.program, *b.train("--strategy", "parameter_server")], code=None)
    check("--ps 1" in err, err)


if __name__ == "__main__":
    harness.main(Bench)
