#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stalled jobs report the cause: ten ways to stall a job, each of which must be named.

Usage: hang.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Comments have the time until the task and
the cause were named: three seconds on an idle machine. Only much more is an error
here.
"""
import ctypes
import json
import os
import random
import re
import signal
import stat
import subprocess
import sys
import time

import harness
from harness import check, host_test, test, write_images

LIMIT = 30  # seconds, on any machine
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207


class Bench(harness.Jobs):
    """Tasks whose standard error is read while they run."""

    def __init__(self, args):
        super().__init__(args)
        self.loops = []

    def open(self, command, cwd=None, env=None):
        """A process with its output in a file."""
        log = self.out("stderr-%d" % len(self.running))
        with open(log, "w") as err:
            p = subprocess.Popen(command, cwd=cwd, env={**self.env, **(env or {})}, stderr=err,
                                 stdout=subprocess.DEVNULL)
        self.running.append(p)
        return p

    def launch(self, *command, workers=2, ps=0):
        """No worker is excluded, so all stall with one."""
        return self.open([self.program, "launch", "--all-stay", "--workers", str(workers), "--ps",
                          str(ps), "--", *command])

    def workers(self, command, cwds=(None, None), start=2):
        """Without a launcher, each in a folder of its own; only the first `start` of them."""
        base = random.randrange(20000, 60000)
        cluster = {"worker": ["localhost:%d" % (base + i) for i in range(len(cwds))]}
        return [self.open([self.program, *command], cwd, {"MESHFLOW_THREADS": "1", "TF_CONFIG":
                json.dumps({"cluster": cluster, "task": {"type": "worker", "index": i}})})
                for i, cwd in enumerate(cwds[:start])]

    def said(self):
        text = ""
        for i in range(len(self.running)):
            with open(self.out("stderr-%d" % i), errors="replace") as f:
                text += f.read()
        return text

    def hears(self, pattern, since, what):
        """The line that has the pattern, and a comment on when it came."""
        while not re.search(pattern, self.said()):
            check(time.monotonic() < since + LIMIT,
                  "nobody said '%s' but: %s" % (pattern, self.said()))
            time.sleep(0.02)
        after = time.monotonic() - since
        line = re.search(".*" + pattern + ".*", self.said()).group(0)
        print("# %s: after %.2f s: %s" % (what, after, line.split("] ")[-1]), flush=True)
        return line

    def said_once(self, pattern):
        lines = [l for l in self.said().splitlines() if "stalled for" in l]
        check(len(lines) == 1 and re.search(pattern, lines[0]), "not one line: %s" % self.said())

    def pid(self, job, task):
        return self.tasks(job)[task]["pid"]

    def keep_busy(self, core, n):
        for _ in range(n):
            p = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            os.sched_setaffinity(p.pid, {core})
            self.loops.append(p)

    def close(self):
        for p in self.loops:  # first: a process that is killed needs CPU time to die
            p.kill()
            p.wait()
        super().close()


def threads_of(pid):
    return [int(t) for t in os.listdir("/proc/%d/task" % pid)]


# ---- ten ways to stall ----


@test
def a_stopped_worker(b):
    b.launch(*b.train("--name", "j"), workers=3)
    b.wait_step("j", 20, 3)
    pid = b.pid("j", "worker 2")
    os.kill(pid, signal.SIGSTOP)
    now = time.monotonic()
    try:
        line = b.hears(r"stalled for", now, "stopped worker")
        check(re.search(r"worker 2 \(pid %d\) has been stopped by a signal" % pid, line), line)
        check(re.search(r"step \d+ stalled", line), line)
        check(re.search(r"worker 0, worker 1 have been waiting for it for [\d.]+ s: .* of step \d+", line), line)
    finally:
        os.kill(pid, signal.SIGCONT)
    b.hears(r"continues after [\d.]+ s", time.monotonic(), "and that it continues")
    b.said_once("worker 2")


@test
def a_stopped_server(b):
    b.launch(*b.train("--name", "j"), ps=1)
    b.wait_step("j", 20, 3)
    pid = b.pid("j", "ps 0")
    os.kill(pid, signal.SIGSTOP)
    now = time.monotonic()
    line = b.hears(r"stalled for", now, "stopped server")
    check(re.search(r"ps 0 \(pid %d\) has been stopped by a signal" % pid, line), line)
    check("have been waiting for it" in line, line)
    os.kill(pid, signal.SIGKILL)


@test
def a_worker_in_a_debugger(b):
    both = b.workers(b.train("--name", "j"))
    b.wait_step("j", 20, 2)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    for tid in threads_of(both[1].pid):
        check(libc.ptrace(PTRACE_SEIZE, tid, None, None) == 0, os.strerror(ctypes.get_errno()))
        check(libc.ptrace(PTRACE_INTERRUPT, tid, None, None) == 0, "it cannot be stopped")
    now = time.monotonic()
    line = b.hears(r"stalled for", now, "worker in a debugger")
    check(re.search(r"worker 1 \(pid %d\) has been stopped by a debugger" % both[1].pid, line), line)
    both[1].kill()


def write_table(path, rows=200):
    rng = random.Random(2)
    with open(path, "w") as f:
        f.write("a,b,label\n")
        for _ in range(rows):
            f.write("%f,%f,%d\n" % (rng.random(), rng.random(), rng.randrange(2)))


@test
def a_worker_that_cannot_load_its_data(b):
    """A pipe without a writer, instead of a file."""
    cwds = [b.out("w0"), b.out("w1")]
    for cwd in cwds:
        os.mkdir(cwd)
    write_table(os.path.join(cwds[0], "table.csv"))
    os.mkfifo(os.path.join(cwds[1], "table.csv"))
    now = time.monotonic()
    both = b.workers(["train", "--model", "mlp units=[4]", "--data", "csv:table.csv", "--set",
                      "label=label", "--test", "csv:table.csv", "--steps", "20", "--quiet",
                      "--no-test", "--name", "j"], cwds)
    line = b.hears(r"stalled for", now, "worker that loads data")
    check(re.search(r"startup stalled", line), line)
    check(re.search(r"worker 1 \(pid %d\) has been loading data for [\d.]+ s: reading \S*table.csv for" %
                    both[1].pid, line), line)
    for _ in range(2):
        write_table(os.path.join(cwds[1], "table.csv"))
        time.sleep(0.2)
        if both[1].poll() is not None:
            break


@test
def a_worker_whose_input_stalls(b):
    """Its next image is a pipe that delivers a byte now and then."""
    cwds = [b.out("w0"), b.out("w1")]
    for cwd in cwds:
        write_images(os.path.join(cwd, "images"), 32, 16)
    both = b.workers(["train", "--model", "mlp units=[2]", "--data", "images", "--test", "images",
                      "--batch", "8", "--steps", "100000", "--quiet", "--no-test", "--cache", "off",
                      "--name", "j"], cwds)
    b.wait_step("j", 20, 2)
    path = os.path.join(cwds[1], "images/class1/7.png")
    with open(path, "rb") as f:
        bytes_of = f.read()
    os.mkfifo(path + ".pipe")
    os.rename(path + ".pipe", path)
    pipe = os.open(path, os.O_RDWR)
    now = time.monotonic()
    try:
        for i in range(2):
            os.write(pipe, bytes_of[i:i + 1])
            time.sleep(0.3)
        line = b.hears(r"stalled for", now, "worker without input")
        check(re.search(r"worker 1 \(pid %d\) has been waiting for input for [\d.]+ s: reading "
                        r"\S*class1/7.png for" % both[1].pid, line), line)
    finally:
        os.write(pipe, bytes_of[2:])
        os.rename(path, path + ".pipe")
        with open(path, "wb") as f:
            f.write(bytes_of)
        os.close(pipe)


@test
def a_worker_that_computes_for_a_long_time(b):
    program = os.path.join(os.path.dirname(b.program), "meshflow-long-op")
    p = b.open([b.program, "launch", "--workers", "2", "--", program, "j"])
    b.wait(lambda: b.tasks("j").get("worker 1", {}).get("step", 0) >= 40 or p.poll() is not None,
           "the step that takes long")
    now = time.monotonic()
    line = b.hears(r"stalled for", now, "worker that computes")
    check(re.search(r"step 40 stalled", line), line)
    # Shards go to workers by their speed: a slow worker may have one.
    check(re.search(r"worker 1 \(pid \d+\) has been computing shards? (\d\.\.)?7 of step 40 for [\d.]+ s, op "
                    r"\S*LargeProduct for", line), line)


@test
def a_worker_that_saves_to_a_slow_place(b):
    """The list of checkpoints is a pipe without a reader."""
    out = b.out("run")
    os.mkdir(out)
    b.launch(*b.train("--name", "j", "--out", out, "--save-steps", "20"))
    where = os.path.join(out, "checkpoint")
    b.wait(lambda: os.path.exists(where), "the first checkpoint")

    def is_pipe():
        if not stat.S_ISFIFO(os.stat(where).st_mode):  # or a list that was on its way took its place
            os.mkfifo(os.path.join(out, "pipe"))
            os.rename(os.path.join(out, "pipe"), where)
        return "stalled for" in b.said()

    now = time.monotonic()
    b.wait(is_pipe, "it stands still")
    line = b.hears(r"stalled for", now, "worker that saves")
    check(re.search(r"worker 0 \(pid \d+\) has been saving for [\d.]+ s: writing \S*/run/checkpoint for",
                    line), line)
    check("worker 1 has been waiting for it" in line, line)


@test
def a_worker_that_never_joins(b):
    now = time.monotonic()
    b.workers(b.train("--name", "j"), start=1)
    line = b.hears(r"stalled for", now, "worker that never comes")
    check(re.search(r"startup stalled.*worker 1 is not on this host, or has not started; worker 0 "
                    r"has been waiting for it for [\d.]+ s: a connection", line), line)


@test
def a_worker_that_is_killed(b):
    both = b.workers(b.train("--name", "j"))
    b.wait_step("j", 20, 2)
    both[1].kill()
    now = time.monotonic()
    line = b.hears(r"worker 1", now, "killed worker")
    check(both[0].wait(LIMIT) != 0, "it goes on")
    r = b.run("job", "hang", "j")
    check(re.search(r"worker 1 \(pid %d\) is dead" % both[1].pid, r.stdout), line + r.stdout)


@test
def a_worker_starved_of_cpu_time(b):
    both = b.workers(b.train("--name", "j", model="fashion-cnn", batch=64))
    b.wait_step("j", 3, 2)
    core = max(os.sched_getaffinity(0))
    b.keep_busy(core, 3)
    for tid in threads_of(both[1].pid):
        os.sched_setaffinity(tid, {core})
        os.sched_setscheduler(tid, os.SCHED_IDLE, os.sched_param(0))
    now = time.monotonic()
    line = b.hears(r"other processes run on its cores", now, "worker without a core")
    check(re.search(r"worker 1 \(pid %d\) has been computing .* and gets \d+ %% of the processor time" %
                    both[1].pid, line), line)


# ---- others ----


@test
def a_job_of_one_task_whose_input_stalls(b):
    write_images(b.out("images"), 16, 16)
    b.open([b.program, "train", "--model", "mlp units=[2]", "--data", b.out("images"), "--test",
            b.out("images"), "--batch", "8", "--steps", "100000", "--quiet", "--no-test", "--cache",
            "off", "--name", "j"])
    b.wait_step("j", 20)
    path = b.out("images/class1/7.png")
    os.mkfifo(path + ".pipe")
    os.rename(path + ".pipe", path)
    line = b.hears(r"stalled for", time.monotonic(), "job of one task")
    check(re.search(r"worker 0 \(pid \d+\) has been waiting for input for [\d.]+ s: reading \S*class1/7.png for "
                    r"[\d.]+ s$", line), line)


@host_test
def a_worker_of_another_host_that_is_stopped(b):
    """It has a /dev/shm of its own, which makes it another host."""
    away = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
    hosts = ",".join("127.0.0.1:%d" % random.randrange(20000, 60000) for _ in range(2))
    for i in range(2):
        b.env["MESHFLOW_RUN_DIR"] = b.out("host%d" % i)
        b.open([*(away if i else []), b.program, *b.train(
            "--name", "j", "--worker-hosts", hosts, "--task-index", str(i), "--job-name", "worker")])
    b.env["MESHFLOW_RUN_DIR"] = b.out("host0")
    b.wait_step("j", 3, 2)
    time.sleep(2)
    os.kill(b.running[1].pid, signal.SIGSTOP)
    now = time.monotonic()
    line = b.hears(r"stalled for", now, "worker of another host")
    check(re.search(r"worker 1 \(pid %d\) is on \S+ and reported [\d.]+ s ago that it" %
                    b.running[1].pid, line), line)
    check("worker 0 has been waiting for it" in line, line)


# ---- slow tasks, and past stalls ----


@test
def a_slow_worker_is_named_once_with_the_cause(b):
    b.env["MESHFLOW_STRAGGLER_CHECK_MS"] = "1000"
    both = b.workers(b.train("--name", "j", "--strategy", "multi_worker_mirrored balance=false"))
    b.wait_step("j", 20, 2)
    core = max(os.sched_getaffinity(0))
    b.keep_busy(core, 3)
    nice = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 8)  # than the loops, whatever runs this test
    for tid in threads_of(both[1].pid):
        os.sched_setaffinity(tid, {core})
        os.setpriority(os.PRIO_PROCESS, tid, nice)
    line = b.hears(r"worker 1 is slow: [\d.]+ times the others by shard", time.monotonic(),
                   "slow worker")
    check(re.search(r"it gets \d+ % of the processor time that it needs \(other processes run on its cores\)",
                    line), line)
    step = b.tasks("j")["worker 0"]["step"]
    b.wait_step("j", step + 20, 2)
    check(b.said().count("worker 1 is slow") == 1, b.said())


@test
def a_killed_job_shows_its_flight_recorder(b):
    launcher = b.launch(*b.train("--name", "j"), workers=2, ps=1)
    b.wait_step("j", 20, 3)
    tasks = b.tasks("j")
    for t in tasks.values():
        os.kill(t["pid"], signal.SIGSTOP)  # so that no task detects another's death
    for t in tasks.values():
        os.kill(t["pid"], signal.SIGKILL)
    launcher.wait(LIMIT)
    check(not any(t["alive"] for t in b.tasks("j").values()), "one lives")
    r = b.run("job", "hang", "j")
    check(re.search("^j: all tasks are dead: killed, or crashed; (ps|worker) [01] was the first",
                    r.stdout), r.stdout)
    job = json.loads(b.run("job", "hang", "--json", "j").stdout)["jobs"][0]
    check([t["task"] for t in job["tasks"]] == ["ps 0", "worker 0", "worker 1"], str(job))
    for t in job["tasks"]:
        check(not t["alive"] and t["does"].startswith("is dead; its last state"), t["does"])
        check(any(e["event"].endswith("is done") for e in t["events"]), str(t["events"]))
        times = [e["seconds"] for e in t["events"]]
        check(times == sorted(times) and times[-1] <= 0, str(times))
    b.run("job", "sweep")
    b.run("job", "hang", "j", code=1)


if __name__ == "__main__":
    harness.main(Bench)
