#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that explain themselves: several at once, killed, stopped and changed while they run.

Usage: jobs.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Training alone is the oracle.
"""
import json
import os
import random
import signal

import harness
from harness import check, host_test, test, write_images


@test
def three_jobs_run_at_once_and_killing_one_leaves_two(b):
    want = b.sha(b.start(*b.train(steps=1500)))
    check(b.jobs() == {}, "a job that has ended is still shown: %s" % b.jobs())
    one = b.start("launch", "--workers", "2", "--", *b.train("--name", "one", steps=1500))
    two = b.start("launch", "--workers", "2", "--", *b.train("--name", "two", steps=1500))
    b.start(*b.train("--name", "three"))
    for name, n in ("one", 2), ("two", 2), ("three", 1):
        b.wait_step(name, 1, n)
    check(sorted(b.jobs()) == ["one", "three", "two"], str(b.jobs()))
    os.kill(b.tasks("three")["worker 0"]["pid"], signal.SIGKILL)
    b.wait(lambda: b.jobs()["three"]["state"] == "dead", "three is dead")
    check("is dead" in b.why("three"), b.why("three"))
    check(b.sha(one) == want and b.sha(two) == want, "weights differ")
    check(sorted(b.jobs()) == ["three"], str(b.jobs()))
    b.run("jobs", "--sweep")
    check(b.jobs() == {}, str(b.jobs()))


@test
def a_name_is_for_one_job_at_a_time(b):
    b.start(*b.train("--name", "x"))
    b.wait_step("x", 1)
    r = b.run(*b.train("--name", "x"), code=1)
    check("give another name" in r.stderr, r.stderr)
    r = b.run(*b.train("--name", "a/b"), code=1)
    check("is no name of a job" in r.stderr, r.stderr)
    r = b.run("status", "y", code=1)
    check("there is no job 'y'" in r.stderr and "meshflow jobs" in r.stderr, r.stderr)


@test
def a_stopped_worker_is_named_as_the_reason(b):
    b.start("launch", "--all-stay", "--workers", "3", "--", *b.train("--name", "j"))
    b.wait_step("j", 3, 3)
    pid = b.tasks("j")["worker 2"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        b.wait(lambda: "worker 0, worker 1 wait for it" in b.why("j"), "the others wait")
        said = b.why("j")
        check(said.startswith("worker 2 (pid %d) is stopped by a signal" % pid), said)
        check(" of step " in said, said)  # the gradients, or how fast everybody is
        tasks = b.tasks("j")
        check(tasks["worker 2"]["state"] == "stopped" and tasks["worker 0"]["state"] == "waits",
              str(tasks))
        check(tasks["worker 0"]["waits"][0]["for"] == "worker 2", str(tasks["worker 0"]))
    finally:
        os.kill(pid, signal.SIGCONT)
    step = b.tasks("j")["worker 0"]["step"]
    b.wait_step("j", step + 3, 3)
    said = b.run("set", "j", "--threads", "2").stdout.splitlines()
    check([l.split(" threads")[0] for l in said] == ["worker %d: 2" % i for i in range(3)], said)


@test
def servers_and_whom_they_wait_for_are_shown(b):
    b.start("launch", "--all-stay", "--workers", "2", "--ps", "1", "--", *b.train("--name", "ps"))
    b.wait_step("ps", 3, 3)
    pid = b.tasks("ps")["worker 1"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        b.wait(lambda: "worker 1 (pid %d) is stopped" % pid in b.why("ps") and
               "worker 0" in b.why("ps"), "worker 0 waits, by way of the server")
    finally:
        os.kill(pid, signal.SIGCONT)


@host_test
def the_chief_shows_tasks_of_other_hosts(b):
    """Worker 1 has a /dev/shm of its own, which makes it another host, and shows itself elsewhere."""
    away = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
    hosts = ",".join("127.0.0.1:%d" % random.randrange(20000, 60000) for _ in range(2))
    for i in range(2):
        b.env["MESHFLOW_RUN_DIR"] = os.path.join(b.dir, "host%d" % i)
        b.start(*b.train("--name", "far", "--worker-hosts", hosts, "--task-index", str(i),
                         "--job-name", "worker", "--timeout", "60"), before=away if i else ())
    b.env["MESHFLOW_RUN_DIR"] = os.path.join(b.dir, "host0")
    b.wait_step("far", 3, 2)
    check(b.running[1].pid == b.tasks("far")["worker 1"]["pid"], str(b.tasks("far")))
    r = b.run("set", "far", "--task", "worker:1", "--threads", "2")
    check("say it there" in r.stdout, r.stdout)
    os.kill(b.running[1].pid, signal.SIGSTOP)
    try:
        b.wait(lambda: "was last heard of" in b.why("far"), "worker 1 is silent")
        check(b.why("far").startswith("worker 1 "), b.why("far"))
        check("worker 0 waits for it" in b.why("far"), b.why("far"))
    finally:
        os.kill(b.running[1].pid, signal.SIGCONT)


@test
def shares_of_time_add_up(b):
    b.start("launch", "--workers", "2", "--", *b.train("--name", "j"))
    b.wait_step("j", 3, 2)
    for t in b.tasks("j").values():
        check(abs(sum(t["utilisation"].values()) - 100) < 1e-6, str(t))
        check(t["utilisation"]["compute"] > 0 and t["utilisation"]["communication"] > 0, str(t))
        check(t["sent_bytes"] > 0, str(t))
    out = json.loads(b.run(*b.train(steps=20)).stdout)
    check(abs(sum(out["utilisation"].values()) - 100) < 1e-6, str(out))
    check(out["utilisation"]["communication"] == 0, str(out))


@test
def threads_of_a_running_job_change_and_weights_do_not(b):
    want = b.sha(b.start(*b.train(steps=1500)))
    p = b.start(*b.train("--name", "j", "--threads", "1", steps=1500))
    b.wait_step("j", 1)
    for threads in 4, 1, 2:
        r = b.run("set", "j", "--task", "worker:0", "--threads", str(threads))
        check(r.stdout == "worker 0: %d threads\n" % threads, r.stdout)
        check(b.tasks("j")["worker 0"]["threads"] == threads, str(b.tasks("j")))
    r = b.run("set", "j", "--task", "worker:7", "--threads", "2", code=1)
    check("no living task worker:7" in r.stderr, r.stderr)
    check(b.sha(p) == want, "weights differ")


def spans(events, rank):
    """When the exchange of each bucket began and ended, in microseconds."""
    mine = [e for e in events if e["pid"] == rank]
    begins = [e["ts"] for e in mine if e["name"] == "_ExchangeBegin" and e["ph"] == "X"]
    ends = [e["ts"] for e in mine if e["name"] == "_ExchangeEnd" and e["ph"] == "e"]
    check(begins and len(begins) == len(ends), "rank %d: %s, %s" % (rank, begins, ends))
    return sorted(begins), sorted(ends)


def check_trace(path, workers):
    with open(path) as f:
        events = json.load(f)["traceEvents"]
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    check([n.split(" (")[0] for n in names] == ["worker %d" % i for i in range(workers)], names)
    errors = [float(n.split("+-")[1].split(" ")[0]) for n in names]
    each = [spans(events, r) for r in range(workers)]
    for k in range(len(each[0][0])):  # nobody has a sum before everybody has given its part
        last, first = max(b[k] for b, _ in each), min(e[k] for _, e in each)
        check(first >= last - 2 * max(errors), "bucket %d: %f before %f" % (k, first, last))


@test
def one_trace_shows_all_workers_in_one_time(b):
    path = os.path.join(b.dir, "trace.json")
    b.run("launch", "--workers", "3", "--", *b.train("--trace", path, steps=12))
    check_trace(path, 3)


@host_test
def clocks_that_differ_are_aligned(b):
    """Worker 1 lives in a time namespace: its clock is an hour and more ahead."""
    ahead = ["unshare", "--time", "--fork", "--kill-child", "--monotonic", "4000"]
    path = os.path.join(b.dir, "trace.json")
    hosts = ",".join("127.0.0.1:%d" % random.randrange(20000, 60000) for _ in range(2))
    both = [b.start(*b.train("--trace", path, "--worker-hosts", hosts, "--task-index", str(i),
                             "--job-name", "worker", steps=12), before=ahead if i else ())
            for i in range(2)]
    for p in both:
        _, err = p.communicate(timeout=120)
        check(p.returncode == 0, err)
    check_trace(path, 2)


@test
def threads_go_where_they_are_needed_and_weights_stay(b):
    folder = os.path.join(b.dir, "images")
    write_images(folder, 32, 160)
    slow = ["train", "--model", "mlp units=[2]", "--data", folder, "--batch", "8", "--shards", "1",
            "--quiet", "--no-test", "--json", "--cache", "off"]
    b.env["MESHFLOW_THREADS"] = "3"
    b.env["MESHFLOW_FEEDING_MS"] = "50"
    p = b.start(*slow, "--steps", "1000000", "--name", "input")
    seen = []

    def more_input():
        seen.append(b.tasks("input").get("worker 0", {}))
        return seen[-1].get("input_threads", 0) > 1

    b.wait(more_input, "more input")
    check(seen[-1]["threads"] + seen[-1]["input_threads"] == 4, str(seen[-1]))
    p.send_signal(signal.SIGTERM)
    out, err = p.communicate(timeout=120)
    moved = json.loads(out)
    want = b.sha(b.start(*slow, "--steps", str(moved["steps"]), "--input-threads", "1"))
    check(moved["weights_sha256"] == want, "weights differ: " + out + err)
    b.start(*b.train("--name", "compute", model="fashion-cnn"))
    b.wait_step("compute", 60)

    def split():
        t = b.tasks("compute")["worker 0"]
        return t["threads"], t["input_threads"]

    b.wait(lambda: split() == (3, 1), "all threads but one compute")


@host_test
def cores_are_shared_by_priority(b):
    core = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    for name, priority in ("low", "1"), ("high", "2"):
        b.start(*b.train("--name", name, "--priority", priority, "--threads", "1"), before=core)
        b.wait_step(name, 1)

    def look():
        t = {name: b.tasks(name)["worker 0"] for name in ("low", "high")}
        return t["low"]["cpu_seconds"], t["high"]["cpu_seconds"], t["low"]["step"]

    before = look()
    b.wait(lambda: look()[1] > before[1] + 3, "three seconds of processor time")
    after = look()
    low, high = after[0] - before[0], after[1] - before[1]
    check(after[2] > before[2], "the low one starves")
    check(1.3 < high / low < 3.0, "processor time %.2f s against %.2f s" % (high, low))


if __name__ == "__main__":
    harness.main(harness.Jobs)
