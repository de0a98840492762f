#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Groups of workers that train independently and average their weights (local SGD): kills, joins, convergence.

Usage: groups.py PROGRAM [PATTERN] [--kills N]

Prints TAP lines and, last, `N passed, N failed, N skipped`. One process that trains all
groups is the oracle: whatever happens to the workers of a group, the weights are the same, bit by bit.
"""
import json
import os
import random
import re
import signal
import subprocess
import time

import harness
import members
from harness import check, host_test, test

harness.TESTS.clear() # those of members.py, whose bench is ours
harness.HOST_TESTS.clear()


class Bench(members.Bench):
    """All train by groups."""
    groups, period = 4, 16

    def train(self, *more, steps=300):
        return super().train("--strategy", "local_sgd groups=%d period=%d" % (self.groups, self.period),
                             *more, steps=steps)


# ---- all workers of a group die, or join ----

def kill_in_turn(b, workers):
    out = b.out("run")
    steps = 80 * b.kills # to be killed in time
    command = b.train("--out", out, "--save-steps", "40", steps=steps)
    b.start_all(workers, command)
    b.await_step(20)
    kills = 0
    for k in range(b.kills):
        victim = k % workers
        if any(p.poll() == 0 for p in b.workers.values()):
            break
        time.sleep(random.random() * 0.6)
        b.kill(victim)
        kills += 1
        if random.random() < 0.8 or sum(p.poll() is None for p in b.workers.values()) < 2:
            b.start(victim, command)
        time.sleep(0.4)
    check(b.finish(600) == b.alone("--save-steps", "40", steps=steps), "other weights\n" + b.logs())
    b.audit(out)
    print("#   %d kills" % kills)
    members.say_times(b.recoveries())


@test
def any_worker_may_be_killed_and_rejoins(b):
    """In turn, the chief among them. Each has a group or two: others take them over."""
    kill_in_turn(b, 3)


@test
def any_worker_of_a_group_may_be_killed_and_rejoins(b):
    """Fewer groups than workers."""
    b.groups = 2
    kill_in_turn(b, 3)


@test
def workers_join_and_leave_and_groups_are_reassigned(b):
    """One at first, which does all four groups; with five some are done by two. Then some leave."""
    out = b.out("run")
    command = b.train("--out", out, steps=500)
    b.start_all(1, command)
    b.await_step(20)
    for i in range(1, 5):
        b.start(i, command)
    for i in range(1, 5):
        b.await_step(1, "worker %d" % i)
    for i in (0, 3): # the chief among them
        b.workers[i].terminate()
        check(b.workers[i].wait(60) == harness.STOPPED, b.logs())
        b.told += b.workers[i].communicate()[0]
        del b.workers[i]
    check(b.finish() == b.alone(steps=500), "other weights\n" + b.logs())
    b.audit(out)


@host_test # not for hosts, but long
def a_stopped_worker_is_excluded_and_rejoins(b):
    b.env["MESHFLOW_LEASE_MS"] = "1000"
    b.start_all(3, b.train(steps=800))
    b.await_step(20)
    b.workers[0].send_signal(signal.SIGSTOP)
    time.sleep(1)
    before = max(b.steps().values())
    b.await_step(before + 20, "worker 1")
    b.workers[0].send_signal(signal.SIGCONT)
    check(b.finish() == b.alone(steps=800), "other weights\n" + b.logs())
    check("continued without it; it rejoins" in b.logs(), b.logs())


@test
def all_workers_are_lost_and_a_checkpoint_remains(b):
    out = b.out("run")
    command = b.train("--out", out, "--save-steps", "20", steps=300)
    b.start_all(2, command)
    b.await_step(80)
    b.kill(0)
    b.kill(1)
    b.start(0, command)
    b.start(1, command)
    check(b.finish() == b.alone("--save-steps", "20", steps=300), "other weights\n" + b.logs())
    check("continues from the checkpoint" in b.logs(), b.logs())
    b.audit(out)


# ---- a group converges ----

class Tasks:
    """Two groups with files of their own. In those of the first there is nothing to learn; the second
    takes its time."""

    def __init__(self, b, rate=0.1, stop=("--stop", "converged tolerance=0.01"), steps=40000):
        self.b, self.stop, self.rate, self.steps = b, stop, rate, steps
        rng = random.Random(5)
        for i in range(8): # a file for each shard
            table = b.out("%d.csv" % i)
            with open(table, "w") as f:
                f.write("a,b,c,d,y\n")
                for _ in range(256):
                    x = [rng.uniform(-1, 1) for _ in range(3)]
                    noise = rng.random()
                    y = noise < 0.5 if i < 4 else (x[0] * x[1] > 0) != (noise < 0.2)
                    f.write("%.4f,%.4f,%.4f,%d,%d\n" % (*x, i >= 4, y))
            r = subprocess.run([b.program, "data", "convert", table, b.out("t-%d.tfrecord" % i), "--set",
                                "label=y"], capture_output=True, text=True)
            check(r.returncode == 0, r.stderr)

    def train(self, *more):
        data = self.b.out("t-*.tfrecord")
        return ["train", "--model", "mlp units=[8]", "--data", data, "--test", data, "--set",
                "columns='x:float[4] label:int32' classes=2", "--slice", "file", "--batch", "64",
                "--steps", str(self.steps), "--seed", "3", "--optimizer", "sgd", "--lr",
                str(self.rate), "--quiet", "--no-test", "--json", "--strategy",
                "local_sgd groups=2 period=16", *self.stop, *more]

    def alone(self):
        """Its result, and the line about the group that leaves."""
        r = subprocess.run([self.b.program, *self.train()], capture_output=True, text=True, timeout=600,
                           env={**self.b.env, "MESHFLOW_THREADS": "1"})
        check(r.returncode == 0, r.stderr)
        return result(r.stdout), left(r.stderr)


def result(text):
    ends = [json.loads(l[l.index("{"):]) for l in text.splitlines() if "weights_sha256" in l]
    return {(e["steps"], e["ended"], e["ended_because"], e["weights_sha256"]) for e in ends}


def left(text):
    """The lines about groups that leave, without what was done with their workers."""
    return {m.group(1) for m in re.finditer(r"\] (group \d converged at step .*; it leaves after step \d+)",
                                            text)}


def finish(b):
    """The output of the remaining workers."""
    out = b.told
    for i, p in b.workers.items():
        try:
            out += "" if p.stdout.closed else p.communicate(timeout=300)[0]
        except subprocess.TimeoutExpired:
            check(False, "worker %d hangs\n%s" % (i, b.logs()))
        check(p.returncode in (0, -signal.SIGKILL), "worker %d: %d\n%s" % (i, p.returncode, b.logs()))
    return result(out)


def await_member(b, index):
    """It is a member, or training has ended."""
    end = time.monotonic() + 60
    while b.steps().get("worker %d" % index, 0) == 0 and b.workers[index].poll() is None:
        check(time.monotonic() < end, "worker %d does not come in\n%s" % (index, b.logs()))
        time.sleep(0.02)


@test
def a_converged_group_ends_and_its_workers_join_the_other(b):
    """At the same step, by the same numbers and with the same weights for any number of workers."""
    tasks = Tasks(b)
    want, line = tasks.alone()
    check(len(line) == 1 and "group 0" in min(line) and "more steps (tolerance 1 %)" in min(line), str(line))
    check(len(want) == 1 and min(want)[1] == "converged" and "group 1 converged" in min(want)[2], str(want))
    for n, moves in ((2, ("worker 0 goes to group 1",)), (3, ("worker 0 goes to group 1",)),
                     (4, ("worker 0 goes to group 1", "worker 1 goes to group 1"))):
        out = b.out("run-%d" % n)
        r = subprocess.run([b.program, "launch", "--workers", str(n), "--", *tasks.train("--out", out)],
                           capture_output=True, text=True, timeout=300, env=b.env)
        check(r.returncode == 0, r.stderr)
        check(result(r.stdout) == want and left(r.stderr) == line, "%d workers: %s\n%s" %
              (n, r.stdout, r.stderr))
        check(all(m in r.stderr for m in moves), r.stderr)
        parts = re.findall(r"does a part of group 1: (\d) of the 8 shards", r.stderr)
        check(sum(map(int, parts[-n:])) == 8, "group 1 is not done by all: " + r.stderr)
        r = subprocess.run([b.program, "audit", "--json", out], capture_output=True, text=True)
        audit = json.loads(r.stdout)
        check(audit["ok"] and audit["skipped"] > 0, r.stdout)
    print("#   %s" % min(line))


@test
def groups_converge_alike_when_workers_are_killed(b):
    """Before and after one has left."""
    tasks = Tasks(b)
    want, line = tasks.alone()
    out = b.out("run")
    command = tasks.train("--out", out, "--save-steps", "160") # a multiple of the period
    b.start_all(3, command)
    b.await_step(100)
    kills = 0
    while kills < b.kills and all(p.poll() is None for p in b.workers.values()):
        time.sleep(random.random() * 0.2)
        victim = kills % 3
        b.kill(victim)
        kills += 1
        b.start(victim, command)
        await_member(b, victim) # otherwise no worker that knows the progress of the groups might be left
    check(finish(b) == want, "other weights than %s\n%s" % (want, b.logs()))
    check(left(b.logs()) == line, b.logs())
    b.audit(out)
    print("#   %d kills" % kills)


def restart_both(b, command):
    for i in 0, 1:
        b.kill(i)
    for i in 0, 1:
        b.start(i, command)


@test
def groups_converge_alike_after_all_were_lost(b):
    """A checkpoint contains their state."""
    tasks = Tasks(b)
    want, line = tasks.alone()
    out = b.out("run")
    command = tasks.train("--out", out, "--save-steps", "160")
    b.start_all(2, command)
    b.await_step(200)
    restart_both(b, command)
    while not left(b.logs()): # the rest takes less than a second: `job status` might run too late
        check(any(p.poll() is None for p in b.workers.values()), "all have ended\n" + b.logs())
        time.sleep(0.01)
    restart_both(b, command)
    check(finish(b) == want, "other weights than %s\n%s" % (want, b.logs()))
    check("continues from the checkpoint" in b.logs() and left(b.logs()) == line, b.logs())
    b.audit(out)


@test
def groups_whose_weights_do_not_move_for_a_given_time_have_converged(b):
    tasks = Tasks(b, rate=1e-30, stop=("--converged-after", "1"), steps=10 ** 9)
    b.start_all(2, tasks.train())
    ends = finish(b)
    check({e[1] for e in ends} == {"converged"}, str(ends))
    why = min(ends)[2]
    check("group 0 converged" in why and "no step has moved the weights" in why, why)


@test
def a_stalled_worker_has_not_converged(b):
    """For longer than the limit of averaging, while no worker may be excluded."""
    tasks = Tasks(b, stop=("--converged-after", "1"), steps=8000)
    p = subprocess.Popen([b.program, "launch", "--workers", "2", "--all-stay", "--",
                          *tasks.train("--name", "still")], env=b.env, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    b.running.append(p)
    b.await_launched("still", 50)
    stopped = b.pids("still")["worker 1"]
    os.kill(stopped, signal.SIGSTOP)
    time.sleep(0.2)
    before = b.latest("still")
    time.sleep(3)
    check(b.latest("still") - before < b.period, "nobody waits for the worker that is stopped")
    os.kill(stopped, signal.SIGCONT)
    out, err = p.communicate(timeout=300)
    check(p.returncode == 0 and '"ended":"steps"' in out and not left(err), out + err)


@test
def slots_of_groups_cannot_be_exported(b):
    tasks = Tasks(b)
    command = tasks.train()
    command[command.index("--strategy") + 1] += " slots=keep"
    r = subprocess.run([b.program, *command], capture_output=True, text=True, timeout=60)
    check(r.returncode == 2 and "use slots=average or slots=reset" in r.stderr, r.stderr)


if __name__ == "__main__":
    options = harness.parser()
    options.add_argument("--kills", type=int, default=6, help="of workers in turn")
    harness.main(Bench, options)
