#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that explain themselves: several at once, killed, stopped and changed while they run.

Usage: jobs.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Training alone is the oracle.
"""
import json
import os
import random
import re
import signal
import time
import zipfile

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
    b.run("job", "sweep")
    check(b.jobs() == {}, str(b.jobs()))


@test
def a_name_is_for_one_job_at_a_time(b):
    b.start(*b.train("--name", "x"))
    b.wait_step("x", 1)
    r = b.run(*b.train("--name", "x"), code=1)
    check("choose another name" in r.stderr, r.stderr)
    r = b.run(*b.train("--name", "a/b"), code=2)
    check("is not a valid job name" in r.stderr, r.stderr)
    r = b.run("job", "status", "y", code=1)
    check("there is no job 'y'" in r.stderr and "meshflow job list" in r.stderr, r.stderr)


@test
def a_stopped_worker_is_named_as_the_cause(b):
    b.start("launch", "--all-stay", "--workers", "3", "--", *b.train("--name", "j"))
    b.wait_step("j", 3, 3)
    pid = b.tasks("j")["worker 2"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        b.wait(lambda: "worker 0, worker 1 have been waiting for it" in b.why("j"), "the others wait")
        said = b.why("j")
        check(said.startswith("worker 2 (pid %d) has been stopped by a signal" % pid), said)
        check(" of step " in said, said)  # the gradients, or the speeds
        tasks = b.tasks("j")
        check(tasks["worker 2"]["state"] == "stopped" and tasks["worker 0"]["state"] == "waits",
              str(tasks))
        check(tasks["worker 0"]["waits"][0]["for"] == "worker 2", str(tasks["worker 0"]))
    finally:
        os.kill(pid, signal.SIGCONT)
    step = b.tasks("j")["worker 0"]["step"]
    b.wait_step("j", step + 3, 3)
    said = b.run("job", "set", "j", "--threads", "2").stdout.splitlines()
    check([l.split(" threads")[0] for l in said] == ["worker %d: 2" % i for i in range(3)], said)


@test
def servers_and_their_blockers_are_shown(b):
    b.start("launch", "--all-stay", "--workers", "2", "--ps", "1", "--", *b.train("--name", "ps"))
    b.wait_step("ps", 3, 3)
    pid = b.tasks("ps")["worker 1"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        b.wait(lambda: "worker 1 (pid %d) has been stopped" % pid in b.why("ps") and
               "worker 0" in b.why("ps"), "worker 0 waits, by way of the server")
    finally:
        os.kill(pid, signal.SIGCONT)


@test
def masters_are_shown_as_processes_with_their_role(b):
    """Next to the tasks they started, under one name; a stopped one blocks no task."""
    p = b.start("launch", "--masters", "2", "--workers", "2", "--ps", "1", "--", *b.train())
    name = "mlp-%d" % p.pid
    b.wait(lambda: len(b.tasks(name)) == 5 and
           all(t["step"] > 2 or t["role"] == "master" for t in b.tasks(name).values()),
           "two masters and three tasks that train")
    tasks = b.tasks(name)
    check(list(b.jobs()) == [name], "several names: %s" % list(b.jobs()))
    check({k: t["role"] for k, t in tasks.items()} ==
          {"master 0": "master", "master 1": "master", "ps 0": "ps", "worker 0": "worker",
           "worker 1": "worker"}, str(tasks))
    check(len({t["pid"] for t in tasks.values()}) == 5, "two tasks are one process: %s" % tasks)
    for i in range(2):
        t = tasks["master %d" % i]
        check(t["state"] == "watches" and "supervising tasks" in t["does"], str(t))
        with open("/proc/%d/environ" % t["pid"], "rb") as f:  # which determines its role
            config = next(v for v in f.read().split(b"\0") if v.startswith(b"TF_CONFIG="))
        check(json.loads(config[len("TF_CONFIG="):])["task"] == {"type": "master", "index": i}, str(config))
    text = b.run("job", "status", name).stdout
    check(re.search(r"^  master 1 +%d  watches " % tasks["master 1"]["pid"], text, re.M), text)
    check(b.jobs()[name]["alive"] == 3 and "of its 3 tasks" not in text, "masters count as tasks that train: " + text)
    os.kill(tasks["master 1"]["pid"], signal.SIGSTOP)
    b.wait(lambda: b.tasks(name)["master 1"]["state"] == "stopped", "the stopped master is shown")
    check("master" not in b.why(name), b.why(name))
    os.kill(tasks["master 1"]["pid"], signal.SIGCONT)
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=120)
    check(b.tasks(name) == {}, "something is still shown: %s\n%s" % (b.tasks(name), err[-3000:]))


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
    r = b.run("job", "set", "far", "--task", "worker:1", "--threads", "2")
    check("say it there" in r.stdout, r.stdout)
    os.kill(b.running[1].pid, signal.SIGSTOP)
    try:
        b.wait(lambda: "last reported" in b.why("far"), "worker 1 is silent")
        check(b.why("far").startswith("worker 1 "), b.why("far"))
        check("worker 0 has been waiting for it" in b.why("far"), b.why("far"))
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
def recent_shares_of_time_cover_only_the_recent_period(b):
    """A worker that is stopped meanwhile has used nothing of it, whatever it did before."""
    b.start("launch", "--all-stay", "--workers", "2", "--", *b.train("--name", "late"))
    b.wait_step("late", 200, 2)
    pid = b.tasks("late")["worker 1"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        b.wait(lambda: b.tasks("late")["worker 0"]["state"] == "waits" and
               b.tasks("late")["worker 0"]["waits"][0]["seconds"] > 0.2, "worker 0 waits for it")
        told = json.loads(b.run("job", "status", "--json", "--lately", "1", "late").stdout)["jobs"][0]
        shares = {t["task"]: t["utilisation"] for t in told["tasks"]}
        check(shares["worker 0"] == {"compute": 0.0, "communication": 100.0, "input": 0.0, "idle": 0.0}, str(shares))
        check(sum(t["shards"] for t in told["tasks"]) == 8, str(told))
        check(b.tasks("late")["worker 0"]["utilisation"]["compute"] > 0, "it has not computed before")
    finally:
        os.kill(pid, signal.SIGCONT)


@test
def threads_of_a_running_job_change_and_weights_do_not(b):
    want = b.sha(b.start(*b.train(steps=1500)))
    p = b.start(*b.train("--name", "j", "--threads", "1", steps=1500))
    b.wait_step("j", 1)
    for threads in 4, 1, 2:
        r = b.run("job", "set", "j", "--task", "worker:0", "--threads", str(threads))
        check(r.stdout == "worker 0: %d threads\n" % threads, r.stdout)
        check(b.tasks("j")["worker 0"]["threads"] == threads, str(b.tasks("j")))
    r = b.run("job", "set", "j", "--task", "worker:7", "--threads", "2", code=1)
    check("no living task worker:7" in r.stderr, r.stderr)
    check(b.sha(p) == want, "weights differ")


def variables(b, job, *more):
    told = json.loads(b.run("job", "vars", job, *more, "--json").stdout)
    return told, {v["name"]: v for v in told["variables"]}


@test
def variables_of_a_running_job_are_read_by_name_without_changes(b):
    """With a rate that changes nothing they are those of the checkpoint that the training began with."""
    first = b.out("first")
    b.sha(b.start(*b.train("--out", first, steps=3)))
    b.run("ckpt", "convert", first, b.out("first.npz"))
    p = b.start("launch", "--workers", "3", "--", *b.train("--name", "still", "--init", first, rate=1e-30))
    b.wait_step("still", 3, 3)
    told, all_of_it = variables(b, "still")
    check(told["task"] == "worker 0" and told["step"] >= 3, str(told))
    kernel = all_of_it["dense/kernel"]
    check((kernel["type"], kernel["shape"], kernel["kind"], kernel["step"], kernel["holders"]) ==
          ("float", "[784,128]", "weight", told["step"],
           [{"task": "each of 3 workers", "slice": "all", "version": told["step"]}]), str(kernel))
    check({"dense/bias", "dense_1/kernel", "dense_1/bias", "global_step"} <= set(all_of_it), str(all_of_it))
    for name in "dense/kernel", "dense_1/bias":
        told, one = variables(b, "still", name, "--task", "worker:2", "--out", b.out("value.npy"))
        check(list(one) == [name] and told["task"] == "worker 2", str(one))
        with zipfile.ZipFile(b.out("first.npz")) as z, open(b.out("value.npy"), "rb") as f:
            check(f.read() == z.read(name + ".npy"), "%s is not what the checkpoint has" % name)
    then, _ = variables(b, "still")
    b.wait_step("still", then["step"] + 1)
    check(variables(b, "still")[0]["step"] > then["step"], "versions do not go on")
    text = b.run("job", "vars", "still", "dense_1/bias").stdout
    check(re.search(r"^dense_1/bias +float +\[10\] +\d+  each of 3 workers: all", text, re.M), text)
    for wrong, message in ((("still", "dense/kernal"), "did you mean 'dense/kernel'"),
                           (("stil",), "there is no job 'stil' here"),
                           (("still", "--task", "worker:7"), "no living worker worker:7 here")):
        r = b.run("job", "vars", *wrong, code=1)
        check(message in r.stderr, r.stderr)
    b.run("job", "vars", "still", "--out", "x.npy", code=2)
    check([f for f in os.listdir(b.dir) if f.startswith(".still")] == [], "answers are left: %s" % os.listdir(b.dir))
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=120)


@test
def owners_of_slices_are_shown_without_changing_weights(b):
    def cover(slices, size):
        """They are one behind the other."""
        slices = sorted(slices)
        return slices[0][0] == 0 and slices[-1][1] == size and all(
            a[1] == c[0] for a, c in zip(slices, slices[1:]))

    def check_end(p, *more):
        """After an interruption, it has the same weights as an uninterrupted one."""
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=120)
        check("weights_sha256" in out, out + err)
        told = json.loads(next(l for l in out.splitlines() if "weights_sha256" in l))
        check(b.sha(b.start(*b.train(*more, steps=told["steps"]))) == told["weights_sha256"], "other weights")

    p = b.start("launch", "--workers", "2", "--ps", "3", "--json", "--", *b.train("--name", "served"))
    b.wait_step("served", 3, 2)
    told, all_of_it = variables(b, "served")
    held = [(h["task"], h["version"], *map(int, re.fullmatch(r"elements (\d+):(\d+)", h["slice"]).groups()))
            for h in all_of_it["dense/kernel"]["holders"]]
    check({h[0] for h in held} == {"ps 0", "ps 1", "ps 2"} and cover([h[2:] for h in held], 784 * 128), str(held))
    check(all(h[1] == told["step"] for h in held), "other versions than after step %d: %s" % (told["step"], held))
    check_end(p)

    p = b.start(*b.train("--name", "alone", "--mesh", "all:2", "--layout", "hidden:all"))
    b.wait_step("alone", 3, 1)
    told, all_of_it = variables(b, "alone")
    held = {h["task"]: h["slice"] for h in all_of_it["dense/kernel"]["holders"]}
    check(held == {"worker 0, device 0": "[0:784, 0:64]", "worker 0, device 1": "[0:784, 64:128]"}, str(held))
    check_end(p, "--mesh", "all:2", "--layout", "hidden:all")

    mesh = "--mesh", "rows:2;cols:2", "--layout", "hidden:rows"
    p = b.start("launch", "--workers", "2", "--json", "--", *b.train("--name", "meshed", *mesh))
    b.wait_step("meshed", 3, 2)
    told, all_of_it = variables(b, "meshed", "--task", "worker:1")
    held = {h["task"]: h["slice"] for h in all_of_it["dense/kernel"]["holders"]}
    check(held == {"worker 0, device 0": "[0:784, 0:64]", "worker 0, device 1": "[0:784, 0:64]",
                   "worker 1, device 2": "[0:784, 64:128]", "worker 1, device 3": "[0:784, 64:128]"}, str(held))
    check(0 <= all_of_it["dense/kernel"]["step"] <= told["step"], str(told))
    check_end(p, *mesh)


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
    for k in range(len(each[0][0])):  # no worker has a sum before all have contributed
        last, first = max(b[k] for b, _ in each), min(e[k] for _, e in each)
        check(first >= last - 2 * max(errors), "bucket %d: %f before %f" % (k, first, last))


@test
def one_trace_shows_all_workers_on_one_timeline(b):
    path = os.path.join(b.dir, "trace.json")
    b.run("launch", "--workers", "3", "--", *b.train("--trace", path, steps=12))
    check_trace(path, 3)


def computing(events, rank):
    """From its first op of the step to when it has handed its last gradient over, in microseconds."""
    mine = [e for e in events if e["pid"] == rank and e["ph"] == "X"]
    return min(e["ts"] for e in mine), max(e["ts"] for e in mine if e["name"] == "_ExchangeBegin")


@test
def three_workers_compute_their_slices_of_a_batch_at_the_same_time(b):
    path = os.path.join(b.dir, "trace.json")
    b.run("launch", "--workers", "3", "--ps", "1", "--", *b.train(
        "--trace", path, "--strategy", "parameter_server", model="fashion-cnn", batch=384, steps=11))
    with open(path) as f:
        events = json.load(f)["traceEvents"]
    spans = [computing(events, r) for r in range(3)]
    together = min(end for _, end in spans) - max(begin for begin, _ in spans)
    check(together > 0, "one has begun when another was done: %s" % spans)


@test
def three_asynchronous_workers_compute_batches_of_their_own_at_the_same_time(b):
    b.start("launch", "--workers", "3", "--ps", "1", "--", *b.train(
        "--name", "three", "--strategy", "parameter_server mode=async", model="fashion-cnn", batch=128))
    b.wait_step("three", 1, 3)

    def states():
        return sorted(t["state"] for name, t in b.tasks("three").items() if name.startswith("worker"))

    b.wait(lambda: states() == ["computes"] * 3, "all three compute at one moment")
    steps = {name: t["step"] for name, t in b.tasks("three").items()}
    b.wait(lambda: all(b.tasks("three")[w]["step"] > steps[w] for w in steps), "all three go on")


def slow_input(b, name, workers, strategy, ms):
    """Starts a job whose steps take as long as reading their samples; returns what gives its step, and the process."""
    program = os.path.join(os.path.dirname(b.program), "meshflow-slow-input")
    p = b.start("launch", "--workers", str(workers), "--ps", "1", "--", program, name, strategy, str(ms))
    b.wait_step(name, 3, workers)
    return lambda: max(t["step"] for w, t in b.tasks(name).items() if w.startswith("worker")), p


def three_beside_one(b, mode, ms):
    """Steps of three workers for each step of one worker that trains at the same time."""
    jobs = [slow_input(b, "%s%d-%d" % (mode, n, ms), n, "parameter_server mode=" + mode, ms) for n in (3, 1)]
    ratio = harness.steps_meanwhile(*(step for step, _ in jobs))
    for _, p in jobs:
        harness.end(p)
    print("#   %s, %d ms for a sample: three workers do %.1f steps while one does 1" % (mode, ms, ratio))
    return ratio


@test
def three_workers_have_a_higher_throughput_than_one(b):
    """Reading a sample sleeps, so the number of cores does not matter."""
    for mode in "sync", "async":
        check(any(three_beside_one(b, mode, ms) > 1.5 for ms in harness.SAMPLE_MS), mode + ": no more than one")


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
def threads_are_autotuned_and_weights_do_not_change(b):
    folder = os.path.join(b.dir, "images")
    write_images(folder, 32, 160)
    slow = ["train", "--model", "mlp units=[2]", "--data", folder, "--batch", "8", "--shards", "1",
            "--quiet", "--no-test", "--json", "--cache", "off"]
    b.env["MESHFLOW_THREADS"] = "3"
    b.env["MESHFLOW_INPUT_AUTOTUNE_MS"] = "50"
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


def has_ended(pid):
    """The exit status may not have been requested."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


@test
def a_sweep_removes_files_of_killed_processes(b):
    p = b.start("launch", "--workers", "2", "--", *b.train("--name", "left"))
    b.wait_step("left", 5, 2)
    store = b.out("store-%d" % p.pid)
    pids = [t["pid"] for t in b.tasks("left").values()]
    p.kill()
    p.wait()
    b.run("job", "sweep")
    check(os.path.isdir(store), "a store was removed that tasks use")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    b.running.remove(p)
    b.wait(lambda: all(has_ended(pid) for pid in pids), "they end")
    memory, ours = ("/dev/shm/meshflow-%d-0123456789abcdef" % pid for pid in (pids[0], os.getpid()))
    files = memory, b.out(".%d" % pids[0])
    for path in *files, ours:
        open(path, "w").close()
    try:
        b.run("job", "sweep")
        left = [x for x in (*files, store) if os.path.exists(x)]
        check(not left and b.tasks("left") == {}, "left behind: %s" % left)
        check(os.path.exists(ours), "shared memory of a process that lives is gone")
    finally:
        os.unlink(ours)


if __name__ == "__main__":
    harness.main(harness.Jobs)
