#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that are interrupted while something else fails: they always end by themselves, within the grace period of
the launcher, with exit code 75.

Usage: interrupts.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Processes are stopped (SIGSTOP) so that signals arrive at
known points.
"""
import ctypes
import json
import os
import signal
import subprocess
import time

import chaos
import harness
from harness import STOPPED, check, test

libc = ctypes.CDLL(None, use_errno=True)


def await_interrupt(pid):
    """The process has received it."""
    bit = 1 << (signal.SIGINT - 1)
    while True:
        with open("/proc/%d/status" % pid) as f:
            pending = [int(line.split()[1], 16) for line in f if line.startswith(("ShdPnd", "SigPnd"))]
        if not any(p & bit for p in pending):
            return
        time.sleep(0.01)


def interrupt_as_a_master(pid):
    """As src/supervisor/supervisor.c does."""
    check(libc.sigqueue(pid, signal.SIGINT, ctypes.c_void_p(0)) == 0, os.strerror(ctypes.get_errno()))
    await_interrupt(pid)


def parent_of(pid):
    with open("/proc/%d/stat" % pid) as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def master_over(b, task):
    pids = b.pids()
    return next(n for n, pid in pids.items() if pid == parent_of(pids[task]))


def results(b):
    with open(b.out("out")) as f:
        lines = f.readlines() + b.said().splitlines()
    return [json.loads(line[line.index("{"):]) for line in lines if "weights_sha256" in line]


def check_ends(b):
    """By itself, with 75, and no task is left."""
    code = b.launcher.wait(60)
    check(code == STOPPED, "exit code %d\n%s" % (code, b.said()[-6000:]))
    check("killed\n" not in b.said(), "tasks were killed\n" + b.said()[-6000:])
    check(not b.tasks(), "left: %s\n%s" % (b.tasks(), b.said()[-6000:]))


def check_stops(b):
    """It ends after a step, which is saved."""
    check_ends(b)
    steps = {r["steps"] for r in results(b) if r["ended"] == "stopped"}
    check(len(steps) == 1 and steps == {harness.newest_checkpoint(b.out("run"))},
          "results of steps %s\n%s" % (steps, b.said()[-6000:]))


def launch(b, *more, **tasks):
    b.launch("--out", b.out("run"), "--save-steps", "20", *more, **tasks)
    b.await_step(30)


@test
def a_server_that_several_masters_interrupt_serves_on(b):
    launch(b, workers=1, ps=2, restarts=0)
    pids = b.pids()
    os.kill(pids["ps 1"], signal.SIGINT)
    await_interrupt(pids["ps 1"])
    for name in "ps 0", "ps 1":
        for _ in range(2):
            interrupt_as_a_master(pids[name])
    b.await_step(b.commits.best + 20)
    check(b.pids() == pids and "is lost" not in b.said(), b.said())
    os.kill(b.pids()["worker 0"], signal.SIGINT)
    check_stops(b)


@test
def a_second_interrupt_by_a_person_ends_a_task_at_once(b):
    launch(b, workers=1, ps=1, restarts=0)
    pid = b.pids()["ps 0"]
    os.kill(pid, signal.SIGINT)
    await_interrupt(pid)
    check(chaos.is_alive(pid), "the first one has ended it\n" + b.said())
    os.kill(pid, signal.SIGINT)
    b.wait(lambda: "ps 0 was killed by signal 2" in b.said(), "the server ends")
    b.launcher.send_signal(signal.SIGINT)
    check_ends(b)


@test
def the_interrupt_of_one_master_interrupts_all_tasks(b):
    launch(b, workers=1, ps=1, masters=2)
    b.await_all(["worker 0", "ps 0", "master 0", "master 1"])
    os.kill(b.pids()[master_over(b, "ps 0")], signal.SIGINT)
    check_stops(b)


@test
def a_task_that_is_taken_over_after_the_interrupt_is_interrupted(b):
    launch(b, workers=1, ps=1, masters=2)
    b.await_all(["worker 0", "ps 0", "master 0", "master 1"])
    first, worker = b.pids()[master_over(b, "worker 0")], b.pids()["worker 0"]
    check(parent_of(b.pids()["ps 0"]) != first, "one master has both tasks")
    os.kill(first, signal.SIGSTOP)
    b.launcher.send_signal(signal.SIGINT)
    b.wait(lambda: not chaos.is_alive(worker), "the worker ends")
    os.kill(first, signal.SIGCONT)
    check_stops(b)


@test
def a_task_that_is_lost_before_the_interrupt_is_not_restarted(b):
    launch(b, workers=2, ps=1, masters=1)
    b.await_all(["worker 0", "worker 1", "ps 0", "master 0"])
    pids = b.pids()
    os.kill(pids["master 0"], signal.SIGSTOP)
    os.kill(pids["worker 1"], signal.SIGKILL)
    b.launcher.send_signal(signal.SIGINT)
    b.wait(lambda: "forwarded to the tasks" in b.said(), "the launcher interrupts the master")
    os.kill(pids["master 0"], signal.SIGCONT)
    check_stops(b)
    check("restarts it" not in b.said(), b.said()[-6000:])


@test
def tasks_whose_only_master_is_lost_are_interrupted(b):
    launch(b, workers=2, ps=1, masters=1)
    b.await_all(["worker 0", "worker 1", "ps 0", "master 0"])
    pid = b.pids()["master 0"]
    os.kill(b.launcher.pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    os.kill(b.launcher.pid, signal.SIGINT)
    os.kill(b.launcher.pid, signal.SIGCONT)
    check_stops(b)


@test
def a_stopped_job_of_restarted_masters_ends_with_75(b):
    """They are not the parents of the tasks, and do not learn their exit codes."""
    launch(b, workers=2, ps=1, masters=2)
    everything = ["worker 0", "worker 1", "ps 0", "master 0", "master 1"]
    b.await_all(everything)
    before = b.pids()
    for name in "master 0", "master 1":
        os.kill(before[name], signal.SIGKILL)
    b.wait(lambda: all(b.pids().get(n, before[n]) != before[n] for n in ("master 0", "master 1")), "new masters")
    b.launcher.send_signal(signal.SIGINT)
    check_stops(b)


@test
def workers_that_wait_for_a_server_end_when_they_are_interrupted(b):
    launch(b, workers=2, ps=1, restarts=0)
    os.kill(b.pids()["ps 0"], signal.SIGKILL)
    b.wait(lambda: b.said().count("training waits for parameter servers") >= 2, "both workers wait")
    b.launcher.send_signal(signal.SIGINT)
    check_ends(b)
    for n in 0, 1:
        check("meshflow: worker %d was asked to end while training waited for parameter servers, so nothing is "
              "saved now; --resume continues from the newest checkpoint" % n in b.said(), b.said()[-6000:])


@test
def a_server_that_waits_for_another_one_ends_when_it_is_interrupted(b):
    launch(b, "--strategy", "parameter_server mode=async", workers=1, ps=2, restarts=0)
    pids = b.pids()
    os.kill(pids["ps 1"], signal.SIGKILL)
    b.wait(lambda: "training waits for parameter servers" in b.said(), "training waits")
    os.kill(pids["worker 0"], signal.SIGKILL)
    b.launcher.send_signal(signal.SIGINT)
    check_ends(b)


@test
def tasks_of_a_launcher_in_the_background_do_not_ignore_interrupts(b):
    """Shells start background jobs so that they ignore SIGINT."""
    for number in signal.SIGINT, signal.SIGTERM:
        r = subprocess.run([b.program, "launch", "--", "sh", "-c", "kill -%d $$; echo continues" % number], env=b.env,
                           preexec_fn=lambda: signal.signal(number, signal.SIG_IGN), capture_output=True, text=True,
                           timeout=60)
        check(r.returncode == 128 + number and "continues" not in r.stdout, "%d: %s" % (r.returncode, r.stdout + r.stderr))


@test
def a_job_that_is_interrupted_before_the_restart_of_its_task_ends_with_75(b):
    """The delay doubles with each failure: the last one takes 6.4 s."""
    b.launch("--out", b.out("run"), workers=1, restarts=9)
    for n in range(1, 9):
        b.wait(lambda: chaos.children(b.launcher.pid), "the worker is started")
        os.kill(chaos.children(b.launcher.pid)[0], signal.SIGUSR1)
        b.wait(lambda: "restart %d of 9" % n in b.said(), "restart %d" % n)
    b.launcher.send_signal(signal.SIGINT)
    check_ends(b)
    check("worker 0 was not restarted" in b.said(), b.said())


if __name__ == "__main__":
    harness.main(chaos.Cluster, harness.parser())
