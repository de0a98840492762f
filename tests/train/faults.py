#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults of a launched job, one test for each row of docs/reference/faults.md without another test: whatever process dies, no
step is lost, the weights equal those of one process, and each sample is used once.

Usage: faults.py PROGRAM [PATTERN] [--kills N]

Prints TAP lines, times as comments, and, last, `N passed, N failed, N skipped`. Times are informative
only and not asserted, because machines are busy with other work.
"""
import json
import os
import random
import signal
import statistics
import subprocess
import threading
import time

import chaos
import harness
from chaos import figures
from harness import check, host_test, test

ALL = ["worker 0", "worker 1", "worker 2", "ps 0", "ps 1", "master 0", "master 1"]


def say(text, *values):
    print("#   " + text % values, flush=True)


def kill(b, *names):
    """All at the same moment: which that was."""
    pids = b.pids()
    check(all(n in pids for n in names), "%s are not all there: %s" % (names, pids))
    now = time.monotonic_ns()
    for n in names:
        os.kill(pids[n], signal.SIGKILL)
    return now


def hit(b, *names):
    """Kills a task; returns (milliseconds until the next step, of the restart delay)."""
    now = kill(b, *names)
    ms = b.commits.after(now)
    check(ms is not None, "no step follows the kill of %s\n%s" % (names, b.said()[-6000:]))
    return ms


# ---- rows 1 to 4: one process ----

@test
def each_process_is_killed_in_turn(b):
    """Three workers, two servers, two masters, in an order and at moments of chance."""
    out = b.out("run")
    b.launch("--out", out, "--save-steps", "100", ps=2, masters=2)
    b.await_step(20)
    b.await_all(ALL)
    times = {"worker": [], "ps": [], "master": []}
    turn = []
    for _ in range(b.args.kills):
        turn = turn or random.sample(ALL, len(ALL))
        victim = turn.pop()
        b.await_all(ALL)
        time.sleep(random.random() * 0.3)
        before = b.pids()
        times[victim.split()[0]].append(hit(b, victim))
        b.wait(lambda: b.pids().get(victim, before[victim]) != before[victim], victim + " comes back")
        after = b.pids()
        check(all(after.get(n) == before[n] for n in ALL if n != victim),
              "not only %s has another process: %s, %s\n%s" % (victim, before, after, b.said()[-6000:]))
    steps = b.check_bits(out)
    check("from the checkpoint" not in b.said(), "steps were lost\n" + b.said())
    for role, ms in times.items():
        if ms:
            say("%s killed: until the next step %s", role, figures(ms))
    say("all: %s; %d steps, none lost", figures(sum(times.values(), [])), steps)


# ---- row 5: everything ----

@test
def all_processes_are_killed_and_restarted(b):
    out = b.out("run")
    more = ["--out", out, "--save-steps", "50"]
    b.launch(*more, ps=2, masters=2)
    b.await_step(130)
    b.await_all(ALL)
    pids = [b.launcher.pid, *b.pids().values()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # so that no task detects another's death
    done = b.commits.best
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    b.launcher.wait(60)
    b.wait_gone(pids)
    saved = harness.newest_checkpoint(out)
    # One checkpoint may be in the writing thread and one in its queue; the next save waits.
    check(done - saved <= 3 * 50, "the newest checkpoint is of step %d, after step %d" % (saved, done))
    b.restart_watch()
    begin = time.monotonic_ns()
    b.launch(*more, "--resume", ps=2, masters=2)
    b.await_step(done + 10)
    ns, step = b.commits.times[0]
    b.check_bits(out)
    lost = done - step + 1
    check(step > saved, "training continues with step %d, before the checkpoint of step %d" % (step, saved))
    say("from the start to the first step %.0f ms; %d steps are done again (a checkpoint every 50)",
        (ns - begin) * 1e-6, lost)


# ---- row 8: one is slow ----

class Slowed:
    """A process that runs a fifth of the time."""

    def __init__(self, pid, run=0.004, stand=0.016):
        self.pid, self.run, self.stand, self.over = pid, run, stand, False
        self.thread = threading.Thread(target=self.alternate, daemon=True)
        self.thread.start()

    def alternate(self):
        while not self.over:
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(self.stand)
            os.kill(self.pid, signal.SIGCONT)
            time.sleep(self.run)

    def close(self):
        self.over = True
        self.thread.join()


@host_test
def a_slow_worker_gets_fewer_shards_and_is_named(b):
    out = b.out("run")
    b.batch = 128
    b.env["MESHFLOW_STRAGGLER_CHECK_MS"] = "500"
    b.launch("--out", out, workers=2)
    b.await_step(60)
    begin = time.monotonic_ns()
    time.sleep(3)
    usual = b.commits.usual(begin, time.monotonic_ns())
    slow = Slowed(b.pids()["worker 1"])
    at = b.commits.best
    try:
        b.wait(lambda: "worker 1 is slow" in b.said(), "the slow one is named")
        named = b.commits.best - at
        b.wait(lambda: b.tasks()["worker 1"].shards < b.tasks()["worker 0"].shards, "it gets fewer shards")
        time.sleep(3)
        begin = time.monotonic_ns()
        time.sleep(5)
        now = time.monotonic_ns()
        mean = (now - begin) * 1e-9 / max(1, b.commits.steps(begin, now))
        shards = b.tasks()["worker 1"].shards
    finally:
        slow.close()
    share = usual * 2 / 1.2  # of 2 workers 1.2 are left
    say("a step took %.0f ms, with one worker at 20 %% %.0f ms: %.2f times its share (%.0f ms); it has %d "
        "of 8 shards; named after %d steps", usual * 1e3, mean * 1e3, mean / share, share * 1e3, shards, named)
    b.check_bits(out)


# ---- row 24: the job grows and shrinks ----

@host_test
def workers_join_and_leave_under_load(b):
    """2, 4, 8, 3 workers."""
    out = b.out("run")
    b.launch("--out", out, workers=2)
    b.await_step(50)
    usual = b.commits.usual(0, time.monotonic_ns())
    for n in (4, 8, 3):
        begin = time.monotonic_ns()
        r = subprocess.run([b.program, "job", "scale", "chaos", "--workers", str(n)], capture_output=True,
                           text=True, env=b.env)
        check(r.returncode == 0, r.stdout + r.stderr)
        b.wait(lambda: len(b.tasks()) == n and all(t.step + 20 > b.commits.best
                                                   for t in b.tasks().values()), "%d workers" % n)
        now = time.monotonic_ns()
        time.sleep(0.5)
        gaps = sorted(g for g, _ in b.commits.gaps(begin, time.monotonic_ns()))
        say("to %d workers: %.0f ms after the command; the longest pause between steps %.0f ms, a step "
            "takes %.0f ms", n, (now - begin) * 1e-6, gaps[-1] * 1e3, usual * 1e3)
    b.check_bits(out)


# ---- row 25: two at once ----

@host_test
def two_processes_are_killed_at_once(b):
    """If two neighbouring servers die, no copy is left: training resumes from a checkpoint, and logs
    it."""
    out = b.out("run")
    b.launch("--out", out, "--save-steps", "20", ps=2, masters=2)
    b.await_step(40)
    for pair in (("worker 0", "worker 1"), ("worker 1", "worker 2"), ("worker 0", "ps 0"),
                 ("worker 2", "ps 1"), ("master 0", "worker 1"), ("master 1", "ps 0"),
                 ("master 0", "master 1"), ("ps 0", "ps 1")):
        b.await_all(ALL)
        time.sleep(random.random() * 0.3)
        ms = hit(b, *pair)
        say("%s and %s killed: until the next step %.0f ms", *pair, ms)
        both = set(pair) == {"ps 0", "ps 1"}
        check(("training continues from the checkpoint" in b.said()) == both, b.said()[-6000:])
    b.check_bits(out)


# ---- row 31: a record that is damaged ----

def flip(path, where):
    """A bit."""
    with open(path, "r+b") as f:
        at = int(where * os.path.getsize(path))
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1]))


@test
def a_damaged_record_is_named_and_training_resumes_exactly_after_a_repair(b):
    path, out = b.out("a.tfrecord"), b.out("run")

    def train(out, *more, code=0):
        r = subprocess.run([b.program, "train", "--model", "mlp", "--data", path, "--test", path, "--set",
                            "classes=10", "--batch", "100", "--steps", "250", "--seed", "3", "--save-steps",
                            "20", "--quiet", "--no-test", "--json", "--out", out, *more],
                           capture_output=True, text=True, timeout=120)
        check(r.returncode == code, "exit code %d: %s" % (r.returncode, r.stderr))
        return json.loads(r.stdout.splitlines()[-1]), r.stderr

    subprocess.run([b.program, "data", "convert", "fashion-mnist", path, "--set", "part=test"], check=True,
                   capture_output=True)
    want = train(b.out("whole"))[0]["weights_sha256"]
    flip(path, 5000.5 / 10000)  # in the middle of a record
    got, err = train(out, code=2)
    check("the record at byte" in err and "is damaged" in err, err)
    flip(path, 5000.5 / 10000)
    check(train(out, "--resume")[0]["weights_sha256"] == want, "other weights after going on")
    r = subprocess.run([b.program, "audit", out], capture_output=True, text=True)
    check(r.returncode == 0, r.stdout + r.stderr)
    say("stopped after %d of 250 steps, then %s", got["steps"], r.stdout.splitlines()[-1])


# ---- row 32: termination signals ----

@test
def a_worker_that_receives_sigterm_leaves_after_a_step(b):
    out = b.out("run")
    b.launch("--out", out, restarts=0)
    b.await_step(60)
    usual = b.commits.usual(0, time.monotonic_ns())
    times, gaps = [], []
    for name in ("worker 2", "worker 0"):
        pid = b.pids()[name]
        now = time.monotonic_ns()
        os.kill(pid, signal.SIGTERM)
        b.wait(lambda: not chaos.is_alive(pid), name + " leaves")
        times.append((time.monotonic_ns() - now) * 1e-6)
        check(b.commits.after(now) is not None, "no step follows")
        gaps.append(max(g for g, _ in b.commits.gaps(now, time.monotonic_ns())) * 1e3)
    b.check_bits(out)
    say("a worker has left after %.0f ms (a step takes %.0f ms); the longest pause of the others %.0f ms",
        statistics.median(times), usual * 1e3, max(gaps))


if __name__ == "__main__":
    options = harness.parser()
    options.add_argument("--kills", type=int, default=20, help="of processes in turn")
    harness.main(chaos.Cluster, options)
