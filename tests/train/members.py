#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers that are killed, stopped, started twice, and join during training.

Usage: members.py PROGRAM [PATTERN] [--kills N]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Training with one process is the oracle:
whatever happens to the workers, the weights are the same, bit by bit, and each sample is used once.
"""
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import time

import harness
from harness import check, host_test, test


class Bench(harness.Bench):
    """Workers without a launcher, that have a store; and launched ones."""

    def __init__(self, args):
        super().__init__(args)
        os.chmod(self.dir, 0o700)
        self.kills = args.kills
        self.env = {**os.environ, "MESHFLOW_RUN_DIR": self.dir, "MESHFLOW_LOG": "info"}
        self.workers = {} # and servers
        self.servers = 0
        self.told = "" # by killed workers
        self.addresses = []

    def train(self, *more, steps=300):
        return ["train", "--model", "fashion-cnn", "--data", "fashion-mnist", "--batch", "32",
                "--steps", str(steps), "--seed", "3", "--optimizer", "momentum", "--lr", "0.05",
                "--quiet", "--no-test", "--json", *more]

    def alone(self, *more, **kind):
        r = subprocess.run([self.program, *self.train(*more, **kind)], capture_output=True, text=True,
                           timeout=3600, env=self.env)
        return self.sha(r.stdout, r.stderr)

    def sha(self, out, err):
        """The worker that ends last may print it again."""
        lines = {json.loads(l[l.index("{"):])["weights_sha256"]
                 for l in out.splitlines() if "weights_sha256" in l}
        check(len(lines) == 1, "%d results: %s\n%s" % (len(lines), out, err))
        return lines.pop()

    def new_address(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.addresses.append("127.0.0.1:%d" % s.getsockname()[1])

    def start(self, index, command):
        """Its standard error is appended to a file shared with its predecessors. Parameter servers follow the
        workers."""
        while len(self.addresses) <= index:
            self.new_address()
        cluster = {"worker": self.addresses[:len(self.addresses) - self.servers]}
        task = {"type": "worker", "index": index}
        if self.servers:
            cluster["ps"] = self.addresses[-self.servers:]
        if index >= len(cluster["worker"]):
            task = {"type": "ps", "index": index - len(cluster["worker"])}
        task = {"cluster": cluster, "task": task}
        with open(self.log(index), "a") as log:
            p = subprocess.Popen([self.program, *command], stdout=subprocess.PIPE, stderr=log, text=True,
                                 env={**self.env, "MESHFLOW_THREADS": "1",
                                      "MESHFLOW_STORE": "file:" + self.out("store"),
                                      "TF_CONFIG": json.dumps(task)})
        self.running.append(p)
        self.workers[index] = p
        return p

    def start_all(self, n, command, servers=0):
        self.servers = servers
        for i in range(n + servers):
            self.new_address()
        for i in range(n + servers):
            self.start(i, command)

    def log(self, index):
        return self.out("worker-%d.err" % index)

    def logs(self):
        text = ""
        for i in self.workers:
            with open(self.log(i)) as f:
                text += "".join("[worker %d] %s" % (i, l) for l in f)
        return text

    def steps(self):
        """The steps of all tasks that show themselves, by name."""
        r = subprocess.run([self.program, "job", "status", "--json"], capture_output=True, text=True,
                           timeout=60, env=self.env)
        jobs = json.loads(r.stdout)["jobs"] if r.stdout else []
        return {t["task"]: t["step"] for j in jobs for t in j["tasks"] if t["state"] != "dead"}

    def await_step(self, step, task="worker 0"):
        end = time.monotonic() + 120
        while self.steps().get(task, 0) < step:
            check(time.monotonic() < end, "%s did not come to step %d\n%s" % (task, step, self.logs()))
            check(any(p.poll() is None for p in self.workers.values()), "all have ended\n" + self.logs())
            time.sleep(0.05)

    def finish(self, patience=240):
        """The weights of the remaining workers."""
        end = time.monotonic() + patience
        out = self.told
        for i, p in self.workers.items():
            left = max(1, end - time.monotonic())
            try:
                out += "" if p.stdout.closed else p.communicate(timeout=left)[0]
            except subprocess.TimeoutExpired:
                check(False, "worker %d hangs\n%s" % (i, self.logs()))
            check(p.returncode in (0, -signal.SIGKILL), "worker %d ended with %d\n%s" %
                  (i, p.returncode, self.logs()))
        return self.sha(out, self.logs())

    def audit(self, out):
        r = subprocess.run([self.program, "audit", out], capture_output=True, text=True, timeout=60)
        check(r.returncode == 0, r.stdout + r.stderr)

    def recoveries(self):
        """Milliseconds from the moment a loss was seen until the next step was done."""
        return [float(ms) for ms in re.findall(r"is complete, (\d+) ms after the failure", self.logs())]

    def kill(self, index):
        p = self.workers[index]
        p.kill()
        if not p.stdout.closed: # once more
            self.told += p.communicate()[0]


def say_times(times):
    if times:
        print("#   %d recoveries: median %.0f ms, longest %.0f ms" %
              (len(times), statistics.median(times), max(times)), flush=True)



@test
def survivors_take_over_the_devices_of_a_mesh(b):
    mesh = ["--mesh", "rows:2;cols:2", "--layout", "batch:rows;filters:cols;hidden:cols", "--exact"]
    want = b.alone("--shards", "1", steps=150)
    out = b.out("mesh")
    b.start_all(4, b.train(*mesh, "--out", out, "--name", "mesh", steps=150))
    b.await_step(40)
    b.kill(2)
    b.await_step(60, "worker 1")
    b.kill(0) # the chief
    b.await_step(75, "worker 1")
    b.start(2, b.train(*mesh, "--out", out, "--name", "mesh", steps=150))
    got = b.finish()
    say_times(b.recoveries())
    check(got == want, "%s, alone %s\n%s" % (got, want, b.logs()))
    b.audit(out)


@test
def without_complete_copies_survivors_of_a_mesh_resume_from_a_checkpoint(b):
    mesh = ["--mesh", "rows:2;cols:2", "--layout", "batch:rows;hidden:cols;weights:rows", "--exact"]
    want = b.alone("--shards", "1", steps=60)
    out = b.out("mesh")
    b.start_all(3, b.train(*mesh, "--out", out, "--name", "mesh", "--save-steps", "10", "--param",
                           "mesh_snapshot_steps=0", steps=60))
    b.await_step(25)
    b.kill(0) # the chief
    got = b.finish()
    check(got == want, "%s, alone %s\n%s" % (got, want, b.logs()))
    check("training continues from the checkpoint" in b.logs(), b.logs())
    b.audit(out)


@test
def any_worker_may_be_killed_and_rejoins(b):
    """One after the other, including the chief, during training."""
    out = b.out("run")
    steps = 60 * b.kills # to be killed in time
    command = b.train("--out", out, "--save-steps", "40", steps=steps)
    b.start_all(3, command)
    b.await_step(20)
    for k in range(b.kills):
        pids = {i: p.pid for i, p in b.workers.items()}
        victim = k % 3
        if any(p.returncode == 0 for p in b.workers.values()):
            break
        time.sleep(random.random() * 0.6)
        b.kill(victim)
        if random.random() < 0.8 or sum(p.poll() is None for p in b.workers.values()) < 2:
            b.start(victim, command)
        check(all(b.workers[i].pid == pid for i, pid in pids.items() if i != victim), "others changed")
        time.sleep(0.4)
    check(b.finish(600) == b.alone(steps=steps), "other weights\n" + b.logs())
    b.audit(out)
    say_times(b.recoveries())


@host_test
def any_worker_or_server_may_be_killed_and_rejoins(b):
    """Three workers, two servers. A server's weights and slots are with its neighbour."""
    out = b.out("run")
    steps = 60 * b.kills
    command = b.train("--out", out, "--save-steps", "40", steps=steps)
    b.start_all(3, command, servers=2)
    b.await_step(20)
    for k in range(b.kills):
        if any(p.returncode == 0 for p in b.workers.values()):
            break
        time.sleep(0.2 + random.random() * 0.6)
        b.kill(k % 5)
        b.start(k % 5, command)
        time.sleep(0.8)
    check(b.finish(600) == b.alone(steps=steps), "other weights\n" + b.logs())
    check("nobody is left" not in b.logs(), b.logs())
    b.audit(out)
    say_times(b.recoveries())


@test
def a_killed_server_and_worker_do_not_change_the_median_of_all_shards(b):
    steps, strategy = 80, "parameter_server aggregation=median"
    command = b.train("--strategy", strategy, steps=steps)
    b.start_all(2, command, servers=2)
    b.await_step(15)
    for victim in 2, 1: # the first server, the second worker
        b.kill(victim)
        b.start(victim, command)
    got = b.finish()
    check(len(b.recoveries()) > 0, "nothing was lost\n" + b.logs())
    check(got == b.alone("--strategy", "mirrored replicas=1 aggregation=median", steps=steps), "other weights\n" + b.logs())


@test
def a_killed_worker_does_not_change_the_median_of_all_groups(b):
    command = b.train("--strategy", "local_sgd groups=4 period=5 aggregation=median", steps=80)
    b.start_all(3, command)
    b.await_step(15)
    b.kill(1)
    got = b.finish()
    check(len(b.recoveries()) > 0, "nothing was lost\n" + b.logs())
    check(got == b.alone("--strategy", "local_sgd groups=4 period=5 aggregation=median", steps=80),
          "other weights\n" + b.logs())


@test
def lost_servers_are_restored_from_a_checkpoint(b):
    out = b.out("run")
    command = b.train("--out", out, "--save-steps", "20", steps=200)
    b.start_all(2, command, servers=2)
    b.await_step(80)
    b.workers[2].kill()
    b.workers[3].kill()
    b.kill(2)
    b.kill(3)
    b.start(2, command)
    b.start(3, command)
    check(b.finish() == b.alone(steps=200), "other weights\n" + b.logs())
    check("training continues from the checkpoint" in b.logs(), b.logs())
    b.audit(out)


@host_test
def two_workers_killed_at_once_are_both_replaced(b):
    b.start_all(4, b.train(steps=200))
    b.await_step(20)
    b.workers[0].kill()
    b.workers[2].kill()
    check(b.finish() == b.alone(steps=200), "other weights\n" + b.logs())


@test
def a_stopped_worker_is_excluded_and_rejoins(b):
    """Longer than its lease; when it wakes up it can change nothing."""
    out = b.out("run")
    b.env["MESHFLOW_LEASE_MS"] = "1000"
    b.start_all(3, b.train("--out", out, steps=600))
    b.await_step(20)
    chief = b.workers[0]
    chief.send_signal(signal.SIGSTOP)
    time.sleep(1)
    before = max(b.steps().values())
    time.sleep(0.5)
    after = max(b.steps().values())
    check(after > before, "the others did not go on: %d, %d\n%s" % (before, after, b.logs()))
    chief.send_signal(signal.SIGCONT)
    check(b.finish() == b.alone(steps=600), "other weights\n" + b.logs())
    b.audit(out)
    check("continued without it; it rejoins" in b.logs(), b.logs())


@host_test
def a_second_process_of_a_task_is_rejected(b):
    b.env["MESHFLOW_LEASE_MS"] = "1000" # the second waits for twice as long: the first might be dead
    command = b.train(steps=700)
    b.start_all(2, command)
    b.await_step(10)
    first = b.workers[1]
    second = b.start(1, command)
    second.wait(60)
    check(second.returncode == 1 and "there is a worker 1 already" in b.logs(), b.logs())
    b.workers[1] = first
    check("epoch 2" not in b.logs(), "somebody was disturbed\n" + b.logs())
    check(b.finish() == b.alone(steps=700), "other weights\n" + b.logs())
    print("#   0 of 700 steps disturbed", flush=True)


@host_test
def workers_join_one_by_one(b):
    """One at first, then three more that were not configured."""
    command = b.train(steps=400)
    b.start_all(1, command)
    b.await_step(20)
    for i in range(1, 4):
        b.start(i, command)
        b.await_step(1, "worker %d" % i)
    check(b.finish() == b.alone(steps=400), "other weights\n" + b.logs())
    check("with worker 0, worker 1, worker 2, worker 3" in b.logs(), b.logs())


def scale(b, job, n):
    r = subprocess.run([b.program, "job", "scale", job, "--workers", str(n)], capture_output=True, text=True,
                       env=b.env)
    check(r.returncode == 0, r.stdout + r.stderr)
    await_workers(b, job, n)


@test
def a_job_is_scaled_while_it_runs(b):
    """1, 4, 2, 3 workers."""
    out = b.out("run")
    b.env["MESHFLOW_THREADS"] = "1"
    p = subprocess.Popen([b.program, "launch", "--workers", "1", "--json", "--", *b.train(
        "--name", "elastic", "--out", out, steps=1000)], env=b.env, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)
    b.running.append(p)
    b.await_launched("elastic", 5)
    for n in (4, 2, 3):
        scale(b, "elastic", n)
    text, err = p.communicate(timeout=240)
    check(p.returncode == 0, err)
    check(b.sha(text, err) == b.alone(steps=1000), "other weights\n" + err)
    b.audit(out)


def slow_input(b, name, ms):
    """A launched job of one worker whose steps take as long as reading their samples; returns what gives its step."""
    program = os.path.join(os.path.dirname(b.program), "meshflow-slow-input")
    b.running.append(subprocess.Popen(
        [b.program, "launch", "--workers", "1", "--", program, name, "multi_worker_mirrored", str(ms)], env=b.env,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    await_launched(b, name, 3)
    return lambda: max(t["step"] for t in tasks(b, name).values())


def three_beside_one(b, ms):
    """Ratio of the steps of a job that two workers joined to those of a job without joins."""
    first = len(b.running)
    alone, joined = (slow_input(b, "%s-%d" % (name, ms), ms) for name in ("alone", "joined"))
    before = harness.steps_meanwhile(joined, alone)
    for n in 2, 3:
        b.running.append(subprocess.Popen([b.program, "job", "join", "joined-%d" % ms], env=b.env,
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        await_workers(b, "joined-%d" % ms, n)
    await_launched(b, "joined-%d" % ms, joined() + 3)
    after = harness.steps_meanwhile(joined, alone)
    print("#   %d ms for a sample: %.1f steps before the join, %.1f after it" % (ms, before, after))
    for p in b.running[first:]:  # the next jobs have the machine for themselves
        harness.end(p)
    return after / before


@test
def workers_join_a_job_whose_store_and_cluster_are_options(b):
    for i in range(2):
        b.new_address()
    flags = [["--worker-hosts", ",".join(b.addresses), "--job-name=worker", "--task_index"],
             ["--cluster", json.dumps({"worker": b.addresses}), "--job-name", "worker", "--task-index"]]
    for k, cluster in enumerate(flags):
        store, name = "file:" + b.out("options%d" % k), "options%d" % k
        command = [b.program, "train", "--model", "mlp", "--data", "fashion-mnist", "--steps", "1000000", "--quiet",
                   "--no-test", "--name", name, "--store", store, *cluster]
        tasks = [subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=b.env) for i in range(2)]
        b.running += tasks
        await_workers(b, name, 2)
        r = subprocess.run([b.program, "job", "scale", name, "--workers", "3"], capture_output=True, text=True, env=b.env)
        check(r.returncode == 0 and "worker 2 was started" in r.stdout, r.stdout + r.stderr)
        await_workers(b, name, 3)
        subprocess.run([b.program, "job", "drain", name], capture_output=True, text=True, env=b.env)
        for p in tasks:
            _, err = p.communicate(timeout=60)
            check(p.returncode == harness.STOPPED, "%d: %s" % (p.returncode, err))


@test
def steps_take_less_time_after_a_join(b):
    """Beside it a job trains that no worker joins. Reading a sample sleeps, so the number of cores does not matter."""
    check(any(three_beside_one(b, ms) > 1.5 for ms in harness.SAMPLE_MS), "steps take no less time")


def waits(b, job):
    """What each task waits for, by name."""
    r = subprocess.run([b.program, "job", "status", "--json", job], capture_output=True, text=True, timeout=60, env=b.env)
    tasks = json.loads(r.stdout)["jobs"][0]["tasks"] if r.stdout else []
    return {t["task"]: t["waits"] for t in tasks}


@test
def a_worker_that_is_killed_inside_an_all_reduce_leaves_the_others_with_the_same_weights(b):
    """Worker 2 is stopped, so worker 1 cannot leave the sum of gradients, in which it is killed."""
    steps, out = 400, b.out("run")
    kind = ["--out", out, "--save-steps", "1", "--keep", "1000", "--check-steps", "1"]
    b.start_all(3, b.train("--name", "sum", *kind, steps=steps))
    b.await_step(10)
    pids = b.pids("sum")
    inside = []
    for _ in range(50):
        os.kill(pids["worker 2"], signal.SIGSTOP)
        end = time.monotonic() + 0.3 # a task that is stopped for longer is taken for lost
        while not inside and time.monotonic() < end:
            inside = [w for w in waits(b, "sum").get("worker 1", []) if "gradients" in w["what"]]
        if inside:
            break
        os.kill(pids["worker 2"], signal.SIGCONT)
        time.sleep(0.02)
    check(inside, "worker 1 was never seen inside of a sum\n" + b.logs())
    b.kill(1)
    os.kill(pids["worker 2"], signal.SIGCONT)
    sha = b.finish()
    check("worker 1" in b.logs() and "differ" not in b.logs(), b.logs())
    r = subprocess.run([b.program, *b.train("--out", b.out("alone"), *kind[2:], steps=steps)],
                       capture_output=True, text=True, timeout=240, env=b.env)
    check(r.returncode == 0 and b.sha(r.stdout, r.stderr) == sha, "other weights\n" + b.logs())
    step = inside[0]["step"]
    for n in step, step + 1, step + 2:
        name = "model.ckpt-%d" % n
        diff = subprocess.run([b.program, "ckpt", "diff", os.path.join(out, name),
                               os.path.join(b.out("alone"), name)], capture_output=True, text=True)
        check(diff.returncode == 0, "step %d: %s" % (n, diff.stdout + diff.stderr))
    b.audit(out)


def await_workers(b, job, n):
    end = time.monotonic() + 120
    while len([t for t in tasks(b, job).values() if t["step"] > 0]) != n or len(tasks(b, job)) != n:
        check(time.monotonic() < end, "there are %s, not %d workers" % (tasks(b, job).keys(), n))
        time.sleep(0.05)


@test
def a_list_of_hosts_sets_the_number_of_workers(b):
    """First the result of a script, then a value in the store; a killed worker is replaced."""
    hosts = os.path.join(b.dir, "hosts")
    def put(text):
        with open(hosts + "~", "w") as f:
            f.write(text)
        os.rename(hosts + "~", hosts)
    put("elsewhere:4\nhere slots=3\n")
    b.env["MESHFLOW_THREADS"] = "1"
    p = subprocess.Popen([b.program, "launch", "--workers", "1", "--json", "--", *b.train(
        "--name", "listed", steps=1000000)], env=b.env, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)
    b.running.append(p)
    b.await_launched("listed", 5)
    follow = [b.program, "job", "scale", "listed", "--host", "here", "--hosts"]
    said = open(os.path.join(b.dir, "said"), "w+")
    script = subprocess.Popen([*follow, "cat " + hosts], env=b.env, stderr=said)
    b.running.append(script)
    await_workers(b, "listed", 3)
    put("here here here")
    complaint, end = "the previous list stays in force: cat " + hosts + ":1", time.monotonic() + 60
    while complaint not in open(said.name).read():
        check(time.monotonic() < end, "no complaint: " + open(said.name).read())
        time.sleep(0.05)
    victim = max(tasks(b, "listed").values(), key=lambda t: t["task"])
    os.kill(victim["pid"], signal.SIGKILL)
    end = time.monotonic() + 60
    while victim["pid"] in [t["pid"] for t in tasks(b, "listed").values()]:
        check(time.monotonic() < end, "a killed worker is still shown")
    await_workers(b, "listed", 3)
    script.terminate()
    put("here:1\n")
    r = subprocess.run([*follow, "key:hosts", "--put", hosts], env=b.env, capture_output=True, text=True)
    check(r.returncode == 0, r.stderr)
    key = subprocess.Popen([*follow, "key:hosts"], env=b.env, stderr=subprocess.PIPE, text=True)
    b.running.append(key)
    await_workers(b, "listed", 1)
    p.terminate()
    text, err = p.communicate(timeout=240)
    check(p.returncode == harness.STOPPED, err)
    check(key.wait(60) == 0, key.stderr.read())


@test
def a_worker_that_receives_sigterm_leaves(b):
    """After a step, with an exit code of its own; the last one of all saves before."""
    out = b.out("run")
    b.start_all(3, b.train("--out", out, steps=100000))
    b.await_step(20)
    b.workers[0].terminate()
    check(b.workers[0].wait(60) == harness.STOPPED, b.logs())
    check("worker 0 has left the job" in b.logs(), b.logs())
    before = max(b.steps().values())
    b.await_step(before + 20, "worker 1")
    b.workers[1].terminate()
    check(b.workers[1].wait(60) == harness.STOPPED, b.logs())
    b.workers[2].terminate()
    check(b.workers[2].wait(60) == harness.STOPPED, b.logs())
    b.audit(out)


@test
def all_workers_are_lost_and_a_checkpoint_remains(b):
    """All are killed; a worker that is started later resumes from their checkpoint."""
    out = b.out("run")
    command = b.train("--out", out, "--save-steps", "20", steps=200)
    b.start_all(2, command)
    b.await_step(80)
    b.kill(0)
    b.kill(1)
    b.start(0, command)
    b.start(1, command)
    check(b.finish() == b.alone(steps=200), "other weights\n" + b.logs())
    check("continues from the checkpoint" in b.logs(), b.logs())
    b.audit(out)


@test
def a_worker_that_joins_a_finished_job_exits(b):
    command = b.train(steps=30)
    b.start_all(2, command)
    sha = b.finish()
    late = b.start(1, command)
    check(late.wait(60) == 0, b.logs())
    check("the job is over" in b.logs() and late.stdout.read() == "", b.logs())
    check(sha == b.alone(steps=30), "other weights")


@test
def a_worker_that_waits_to_join_ends_on_a_signal(b):
    b.new_address()
    b.new_address()
    p = b.start(0, b.train())
    end = time.monotonic() + 60
    while "to join" not in b.logs():
        check(time.monotonic() < end, "it does not wait\n" + b.logs())
        time.sleep(0.05)
    p.terminate()
    check(p.wait(30) == harness.STOPPED, "%d\n%s" % (p.returncode, b.logs()))


@test
def a_worker_that_joins_a_stopped_job_learns_that_it_was_stopped(b):
    command = b.train("--out", b.out("run"), "--save-steps", "50", steps=1000000)
    b.start_all(2, command)
    b.await_step(5)
    for p in b.workers.values():
        p.send_signal(signal.SIGINT)
    for p in b.workers.values():
        p.communicate(timeout=60)
        check(p.returncode == harness.STOPPED, "%d\n%s" % (p.returncode, b.logs()))
    late = b.start(1, command)
    check(late.wait(60) == harness.STOPPED, "%d\n%s" % (late.returncode, b.logs()))
    check("the job was stopped" in b.logs() and late.stdout.read() == "", b.logs())


@host_test
def a_launcher_restarts_lost_tasks(b):
    p = subprocess.Popen([b.program, "launch", "--workers", "3", "--max-restarts", "3", "--json", "--",
                          *b.train("--name", "chaos", steps=400)], env=b.env, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    b.running.append(p)
    b.await_launched("chaos", 20)
    os.kill(b.pids("chaos")["worker 0"], signal.SIGKILL)
    time.sleep(1)
    out, err = p.communicate(timeout=240)
    check(p.returncode == 0, err)
    check("worker 0 was killed by signal 9 (Killed): restart 1 of 3" in err, err)
    check(b.sha(out, err) == b.alone(steps=400), "other weights\n" + err)


@test
def a_launcher_that_is_killed_stops_nothing_and_no_output_is_lost(b):
    out, logs = b.out("run"), b.out("logs")
    p = subprocess.Popen([b.program, "launch", "--workers", "2", "--log-dir", logs, "--", *b.train(
        "--name", "orphans", "--out", out, steps=200)], env=b.env, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)
    b.running.append(p)
    b.await_launched("orphans", 20)
    pids = b.pids("orphans")
    p.kill()
    p.communicate()
    end = time.monotonic() + 120
    while any(os.path.exists("/proc/%d" % pid) for pid in pids.values()) and time.monotonic() < end:
        time.sleep(0.1)
    r = subprocess.run([b.program, "train", *b.train("--out", b.out("alone"), steps=200)[1:]],
                       capture_output=True, text=True, timeout=240, env=b.env)
    check(r.returncode == 0, r.stderr)
    with open(os.path.join(logs, "worker-0.out")) as f:
        check(b.sha(f.read(), "") == b.sha(r.stdout, r.stderr), "the result is not in the log")
    check(b.steps() == {}, "tasks that have ended are shown: %s" % b.steps())
    listed = subprocess.run([b.program, "job", "list", "--json"], capture_output=True, text=True, env=b.env)
    check(json.loads(listed.stdout)["jobs"] == [], listed.stdout)
    diff = subprocess.run([b.program, "ckpt", "diff", out, b.out("alone")], capture_output=True, text=True)
    check(diff.returncode == 0, diff.stdout + diff.stderr)
    b.audit(out)


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(x) for x in f.read().split()]


@test
def masters_are_killed_and_stopped(b):
    """Three workers, two servers, two masters: one of each is killed, and 100 steps pass while no master
    moves."""
    out = b.out("run")
    p = subprocess.Popen([b.program, "launch", "--masters", "2", "--workers", "3", "--ps", "2",
                          "--max-restarts", "9", "--json", "--", *b.train(
                              "--name", "all", "--out", out, steps=700)],
                         env=b.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    b.running.append(p)
    b.await_launched("all", 20)
    masters = children(p.pid)
    check(len(masters) == 2, "masters: %s" % masters)
    for pid in masters:
        os.kill(pid, signal.SIGSTOP)
    b.await_launched("all", b.latest("all") + 100)
    for pid in masters:
        os.kill(pid, signal.SIGCONT)
    os.kill(b.pids("all")["worker 1"], signal.SIGKILL)
    time.sleep(1)
    os.kill(masters[0], signal.SIGKILL)
    time.sleep(0.2)
    os.kill(b.pids("all")["ps 0"], signal.SIGKILL)
    time.sleep(1)
    os.kill(b.pids("all")["worker 0"], signal.SIGKILL)
    text, err = p.communicate(timeout=240)
    check(p.returncode == 0, err)
    for name in ("worker 1", "ps 0", "worker 0"):
        check(re.search(name + r" \(process \d+\) has exited: master \d restarts it", err), err)
    check(b.sha(text, err) == b.alone(steps=700), "other weights\n" + err)
    b.audit(out)


@test
def a_master_takes_over_from_a_lost_one(b):
    p = subprocess.Popen([b.program, "launch", "--masters", "2", "--workers", "2", "--json", "--", *b.train(
        "--name", "heirs", steps=400)], env=b.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    b.running.append(p)
    b.await_launched("heirs", 20)
    os.kill(children(p.pid)[0], signal.SIGKILL)
    text, err = p.communicate(timeout=240)
    check("takes over worker 0 from master 0, which is lost" in err, err)
    check(b.sha(text, err) == b.alone(steps=400), "other weights\n" + err)


def tasks(b, job):
    r = subprocess.run([b.program, "job", "status", "--json"], capture_output=True, text=True, env=b.env)
    for j in json.loads(r.stdout)["jobs"] if r.stdout else []:
        if j["job"] == job:
            return {t["task"]: t for t in j["tasks"] if t["state"] != "dead"}
    return {}


def await_launched(b, job, step):
    end = time.monotonic() + 60
    while not any(t["step"] >= step for t in tasks(b, job).values()):
        check(time.monotonic() < end, "%s did not come to step %d" % (job, step))
        time.sleep(0.05)


Bench.await_launched = await_launched
Bench.latest = lambda b, job: max(t["step"] for t in tasks(b, job).values())
Bench.pids = lambda b, job: {name: t["pid"] for name, t in tasks(b, job).items()}

if __name__ == "__main__":
    options = harness.parser()
    options.add_argument("--kills", type=int, default=6, help="of workers in turn")
    harness.main(Bench, options)
