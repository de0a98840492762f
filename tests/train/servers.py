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
from harness import check, host_test, root_test, test


class Bench(harness.Bench):
    def train(self, *more, steps=20, model="mlp", data="fashion-mnist", batch=30, optimizer="adam"):
        return ["train", "--model", model, "--data", data, "--batch", str(batch), "--optimizer",
                optimizer, "--steps", str(steps), "--quiet", "--no-test", "--json", *more]

    def launch(self, workers, ps, args, *more):
        return [self.program, "launch", "--workers", str(workers), "--ps", str(ps), "--json", *more, "--",
                *args]

    def run(self, command, code=0, env=None):
        r = subprocess.run(command, capture_output=True, text=True, timeout=120,
                           env=dict(os.environ, **(env or {})))
        check(r.returncode in (code if isinstance(code, tuple) else (code,)) or (code is None and r.returncode != 0),
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
def optimizers_that_change_all_rows_of_tables_give_the_bits_of_one_process(b):
    """Rows without a gradient change: by moments that decay, by weight decay, or by a norm of the whole table."""
    kinds = [("sgd",), ("rmsprop",), ("adam",), ("adam amsgrad=true",), ("adam lazy=true",), ("adamw",), ("adamw lazy=true",),
             ("adafactor",), ("lamb",), ("momentum", "--weight-decay", "0.01"), ("ftrl", "--weight-decay", "0.01"),
             ("adam", "--ema", "0.9"), ("momentum", "--clip", "norm=0.01")]
    for optimizer, *more in kinds:
        kind = dict(model="wide-deep buckets=500", data="synthetic-ctr", optimizer=optimizer, steps=8)
        want = b.alone(*more, **kind)["weights_sha256"]
        for workers, ps in ((1, 1), (2, 1), (3, 2), (2, 3)):
            got = b.served(workers, ps, *more, **kind)["weights_sha256"]
            check(got == want, "%s %s: %d workers and %d servers differ" % (optimizer, more, workers, ps))
        for mode in "mode=async", "mode=semi staleness=1":
            got = b.served(1, 2, "--strategy", "parameter_server " + mode, *more, **kind)["weights_sha256"]
            check(got == want, "%s %s: one worker of servers with %s differs" % (optimizer, more, mode))


@test
def any_weight_partitioning_gives_the_same_bits(b):
    rules = ["whole", "fixed shards=2 place=by_size", "fixed shards=7", "min_size shard_bytes=4096",
             "max_size shard_bytes=20000 max_shards=5 place=by_size"]
    for kind in (dict(model="mlp", steps=8),
                 dict(model="wide-deep buckets=2000", data="synthetic-ctr", optimizer="ftrl", steps=8),
                 dict(model="wide-deep buckets=2000", data="synthetic-ctr", optimizer="adam", steps=8)):
        want = b.alone(**kind)["weights_sha256"]
        for i, rule in enumerate(rules):
            out = b.out("%s-%s-%d" % (kind["model"][:3], kind.get("optimizer"), i))
            got = b.served(2, 3, "--strategy", "parameter_server partition=" + rule, "--out", out, **kind)
            check(got["weights_sha256"] == want, "%s, %s: other bits" % (kind, rule))
            b.run([b.program, "ckpt", "verify", out])
    for wrong, said in (("thirds", "partition is even, whole"), ("fixed", "belong together"), ("whole shards=2", "belong together"),
                        ("whole max_shards=2", "partition=min_size"), ("even place=by_size", "partition=whole"),
                        ("whole place=here", "round_robin or by_size")):
        _, err = b.run(b.launch(1, 2, b.train("--strategy", "parameter_server partition=" + wrong, steps=2)), code=None)
        check(said in err, "%s: %s" % (wrong, err[-500:]))
    tables = dict(model="wide-deep buckets=2000", data="synthetic-ctr")
    for kind in dict(), dict(tables, optimizer="momentum", clip="norm=1"), dict(tables):
        clip = ["--clip", kind.pop("clip")] if "clip" in kind else []
        _, err = b.run(b.launch(1, 2, b.train("--strategy", "parameter_server partition=fixed shards=2", *clip,
                                              **dict(dict(steps=2, optimizer="lamb"), **kind))), code=None)
        check("partition=whole" in err, err[-500:])


@test
def settings_that_servers_reject_are_rejected_by_workers_without_servers(b):
    """The servers have ended when the workers start. A worker that waited for them would time out here."""
    train = b.train("--strategy", "parameter_server aggregation=adasum partition=fixed shards=2", "--timeout", "600", steps=2)
    for kind in "ps", "worker":
        for i in range(2):
            env = {"TF_CONFIG": tf_config(2, 2, kind, i), "MESHFLOW_STORE": "file:" + os.path.join(b.dir, "store")}
            _, err = b.run([b.program, *train], code=2, env=env)
            check("partition=whole" in err, "%s %d: %s" % (kind, i, err[-500:]))


@test
def servers_prune_like_one_process(b):
    kind = dict(model="mlp", steps=12, batch=32, optimizer="momentum")
    for how, servers in ("scope=layer", (1, 2)), ("scope=global", (1,)):
        prune = "--prune", "magnitude sparsity=0.8 begin=2 end=9 every=2 " + how
        want = b.alone(*prune, **kind)["weights_sha256"]
        for ps in servers:
            check(b.served(3, ps, *prune, **kind)["weights_sha256"] == want, "%s, %d servers" % (how, ps))
    _, err = b.run(b.launch(1, 2, b.train("--prune", "magnitude sparsity=0.8", **kind)), code=None)
    check("needs one server (--ps 1), scope=layer" in err, err)


def slow_down(p, pid):
    """It runs a quarter of the time."""
    while p.poll() is None:
        try:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.03)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.01)
        except ProcessLookupError:
            return


@test
def a_slow_worker_gets_fewer_shards(b):
    env = {"MESHFLOW_RUN_DIR": b.dir, "MESHFLOW_LOG": "info"}
    kind = dict(model="cnn-small", steps=60, batch=32, optimizer="momentum")
    p = subprocess.Popen(b.launch(2, 1, b.train("--name", "slow", "--threads", "1", **kind)),
                         env=dict(os.environ, **env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    b.running.append(p)
    slow = None
    while not slow and p.poll() is None:
        status = b.run([b.program, "job", "status", "--json"], env=env, code=harness.HEALTH)[0]
        slow = [t["pid"] for j in status["jobs"] for t in j["tasks"] if t["task"] == "worker 1" and t["step"] > 0]
    slow_down(p, slow[0])
    out, err = p.communicate()
    shares = re.findall(r"shards are assigned again, by speed: workers have (\d+) at [^,]*, (\d+) at", err)
    check(any(int(x) > int(y) for x, y in shares), "the slow one never gets fewer: " + err)
    check(json.loads(out)["weights_sha256"] == b.alone(**kind)["weights_sha256"], "other weights")


@test
def messages_and_shared_memory_give_the_same_results(b):
    for kind in (dict(model="mlp"), dict(model="wide-deep", data="synthetic-ctr", optimizer="ftrl", steps=8),
                 dict(model="wide-deep buckets=500", data="synthetic-ctr", optimizer="adam", steps=8)):
        want = b.alone(**kind)["weights_sha256"]
        got = b.run(b.launch(2, 2, b.train(**kind)), env={"MESHFLOW_PS_SHARED_MEMORY": "0"})[0]
        check(got["weights_sha256"] == want, "%s: other bits" % kind)


@test
def bytes_grow_with_the_rows_that_are_used(b):
    def moved(batch, model):
        got = b.served(2, 2, model=model, data="synthetic-ctr", optimizer="ftrl", steps=6, batch=batch)
        return got["pushed_bytes"], got["pulled_bytes"]
    small, large = "wide-deep buckets=20000", "wide-deep buckets=2000000"
    pushed = [moved(batch, small)[0] for batch in (16, 32, 64)]
    check(pushed[2] - pushed[1] == 2 * (pushed[1] - pushed[0]) > 0, "not by samples: %s" % pushed)
    few, many = moved(64, small), moved(64, large)  # rows of hashed crosses collide less often in the large one
    check(few[0] == many[0], "pushes depend on how large tables are: %s, %s" % (few, many))
    check(few[1] < many[1] < 1.3 * few[1], "answers depend on how large tables are: %s, %s" % (few, many))


@test
def a_trace_shows_the_work_of_servers(b):
    path = b.out("trace.json")
    b.served(2, 1, "--trace", path, steps=12)
    with open(path) as f:
        events = json.load(f)["traceEvents"]
    rows = {e["args"]["name"].split(" (")[0]: e["pid"] for e in events if e["ph"] == "M"}
    check(sorted(rows) == ["ps 0", "worker 0", "worker 1"], "rows: %s" % rows)
    done = [(e["name"], e["args"]["node"], e["ts"], e["ts"] + e["dur"]) for e in events
            if e["pid"] == rows["ps 0"] and e["ph"] == "X"]
    when = {what: [x for x in done if x[0] == what]
            for what in ("push", "aggregate", "update", "pull", "acknowledge")}
    check([len(x) for x in when.values()] == [2, 1, 1, 2, 2], "not one step of two workers: %s" % when)
    for what in ("push", "pull", "acknowledge"):
        check(sorted(x[1] for x in when[what]) == ["worker 0", "worker 1"], "%s: %s" % (what, when[what]))
    order = list(when.values())
    for before, after in zip(order, order[1:]):
        check(max(x[3] for x in before) <= min(x[2] for x in after) + 0.01, "%s, then %s" % (before, after))
    sent = min(e["ts"] for e in events if e["pid"] == rows["worker 0"] and e["name"] == "MatMul")
    check(sent < when["aggregate"][0][2], "the server adds up before gradients are computed")


@test
def a_checkpoint_of_the_servers_equals_that_of_one_process(b):
    out = os.path.join(b.dir, "ckpt")
    want = b.alone(steps=30)["weights_sha256"]
    b.served(2, 2, "--out", out, "--save-steps", "5", steps=15)
    got = b.alone("--out", out, "--resume", steps=30)  # slots and all
    check(got["weights_sha256"] == want, "going on alone from what servers saved differs")
    got = b.served(3, 1, "--out", out, "--resume", steps=30)
    check(got["weights_sha256"] == want, "nothing was left to do, and yet it differs")


def files_of(folder, step):
    return sorted(x for x in os.listdir(folder) if x.startswith("model.ckpt-%d." % step))


@test
def the_servers_write_the_last_checkpoint(b):
    out = os.path.join(b.dir, "ckpt")
    b.served(2, 3, "--out", out, "--save-steps", "5", steps=15)
    check(files_of(out, 15) == ["model.ckpt-15.data-0000%d-of-00004" % i for i in range(4)] +
          ["model.ckpt-15.index"], "parts: %s" % os.listdir(out))
    check(all(os.path.getsize(os.path.join(out, "model.ckpt-15.data-0000%d-of-00004" % i)) > 300000
              for i in (1, 2, 3)), "the servers' parts are small")
    b.run([b.program, "ckpt", "verify", out])
    b.served(1, 1, "--out", out, "--keep", "1", "--resume", steps=20)
    left = [x for x in os.listdir(out) if x.startswith("model.ckpt-")]
    check(sorted(left) == files_of(out, 20) and len(left) == 3, "left behind: %s" % left)


def tf_config(workers, servers, kind, index):
    def address(i):
        return "local-%d:%d" % (os.getpid(), i + 1)
    cluster = {"worker": [address(i) for i in range(workers)],
               "ps": [address(workers + i) for i in range(servers)]}
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


@host_test
def a_server_without_the_folder_reports_it(b):
    out = os.path.join(b.dir, "ckpt")
    os.mkdir(out)
    tasks = []
    for kind, index in (("ps", 0), ("ps", 1), ("worker", 0)):
        command = [b.program, *b.train("--out", out, steps=8)]
        if (kind, index) == ("ps", 1):
            command = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', out, *command]
        env = dict(os.environ, TF_CONFIG=tf_config(1, 2, kind, index))
        tasks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True))
    said = [p.communicate(timeout=60)[1] for p in tasks]
    check(all(p.returncode == 0 for p in tasks), "it does not end well: %s" % said)
    check("ps 1" in said[2] and "another folder" in said[2], "the chief does not say why: %s" % said[2])
    check(files_of(out, 8) == ["model.ckpt-8.data-00000-of-00001", "model.ckpt-8.index"] and
          not [x for x in os.listdir(out) if ".tmp-" in x], "left behind: %s" % os.listdir(out))
    check(b.alone("--out", out, "--resume", steps=30)["weights_sha256"] ==
          b.alone(steps=30)["weights_sha256"], "going on from it differs")


def on_hosts(b, hosts, workers, servers, args):
    """Tasks on simulated hosts: tasks without a shared /dev/shm count as remote. Returns the chief's output."""
    shells = []
    for tasks in hosts:
        lines = ["mount -t tmpfs none /dev/shm"]
        for kind, index in tasks:
            lines.append("TF_CONFIG='%s' \"$@\" 2>&1 & all=\"$all $!\"" %
                         tf_config(workers, servers, kind, index))
        lines.append("for p in $all; do wait $p || exit 1; done")
        shells.append(subprocess.Popen(
            ["unshare", "-m", "sh", "-c", "\n".join(lines), "sh", b.program, *args], text=True,
            stdout=subprocess.PIPE))
    said = [p.communicate(timeout=120)[0] for p in shells]
    check(all(p.returncode == 0 for p in shells), "they do not end well: %s" % said)
    return json.loads([x for x in "".join(said).splitlines() if x.startswith("{")][0])


@root_test
def workers_of_a_host_push_together(b):
    hosts = [[("worker", 0), ("worker", 1)], [("worker", 2), ("worker", 3)], [("ps", 0), ("ps", 1)]]
    for kind in (dict(model="mlp", optimizer="momentum", steps=9),  # in so few steps shards are not assigned by speed
                 dict(model="wide-deep", data="synthetic-ctr", optimizer="ftrl", steps=8),
                 dict(model="wide-deep buckets=500", data="synthetic-ctr", optimizer="adam", steps=8)):
        want, sent = b.alone(**kind)["weights_sha256"], {}
        for by_host in ("true", "false"):
            got = on_hosts(b, hosts, 4, 2, b.train(
                "--strategy", "parameter_server by_host=" + by_host, **kind))
            check(got["weights_sha256"] == want, "%s by_host=%s: other bits" % (kind, by_host))
            sent[by_host] = got["sent_bytes"]
        if kind["model"] == "mlp":  # with the first weights, which the chief sets
            check(sent["true"] < 0.6 * sent["false"], "bytes do not drop by half: %s" % sent)
    weighted = " aggregation=weighted weights=[1,2,3,4]"
    want = b.served(4, 0, "--strategy", "multi_worker_mirrored" + weighted, steps=5)["weights_sha256"]
    got = on_hosts(b, hosts, 4, 2, b.train("--strategy", "parameter_server" + weighted, steps=5))
    check(got["weights_sha256"] == want, "each worker's gradients are not weighted before they are added up")


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
def a_killed_task_is_named_by_the_others(b):
    for victim in ("ps 0", "worker 1"):
        out = b.out(victim)
        p = subprocess.Popen(b.launch(2, 2, b.train("--out", out, "--save-steps", "5", steps=100000),
                                      "--all-stay"),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        harness.await_checkpoint(out)
        found = victims(p.pid)
        check(victim in found, "%s is not among %s" % (victim, found))
        os.kill(found[victim], signal.SIGKILL)
        begin = time.monotonic()
        _, err = p.communicate(timeout=30)
        check(p.returncode != 0, "nobody minds that %s is gone" % victim)
        check(time.monotonic() - begin < 10, "it took long")
        said = [x for x in err.splitlines() if victim in x and "is lost" in x]
        check(said, "nobody names %s: %s" % (victim, err[-600:]))


def gone_after(pid):
    """The second after which each task of a launcher has ended."""
    alive, gone, begin = {}, {}, time.monotonic()
    while not gone or alive:
        alive = {**victims(pid), **alive} if not gone else alive
        for name in [x for x in alive if not os.path.exists("/proc/%d" % alive[x])]:
            gone[name] = time.monotonic() - begin
            del alive[name]
        time.sleep(0.005)
        check(time.monotonic() - begin < 60, "they do not end: %s" % alive)
    return gone


@test
def all_end_soon_after_the_last_worker(b):
    for mode in ("sync", "async"):
        out = os.path.join(b.dir, mode)
        p = subprocess.Popen(b.launch(3, 2, b.train("--strategy", "parameter_server mode=" + mode, "--out",
                                                    out, steps=300)), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        gone = gone_after(p.pid)
        _, err = p.communicate(timeout=60)
        check(p.returncode == 0, "%s: exit code %d: %s" % (mode, p.returncode, err))
        check(len(gone) == 5, "only %s were seen" % gone)
        last = max(gone["worker %d" % i] for i in range(3))
        late = max(gone["ps %d" % i] for i in range(2)) - last
        check(late < 10, "%s: a server ends %.1f s after the last worker" % (mode, late))
        check(len(files_of(out, 300)) == 4, "%s: %s" % (mode, os.listdir(out)))


@test
def asynchronous_workers_do_every_batch_once_and_end(b):
    for mode, steps in (("async", 500), ("semi staleness=1", 500), ("semi staleness=0", 500),
                        ("semi quorum=2", 1000), ("async period=4", 2000)):  # as many updates, about
        args = b.train("--strategy", "parameter_server mode=%s" % mode, "--lr", "0.001", steps=steps)
        args.remove("--no-test")
        got = b.run(b.launch(3, 2, args))[0]
        check(got["steps"] == steps, "%s: %d steps" % (mode, got["steps"]))
        check(got["accuracy"] > 0.65, "%s does not learn: %g" % (mode, got["accuracy"]))


class Job:
    """A training with servers that is observed while it runs."""

    def __init__(self, b, workers, ps, mode, *launch, steps=1500, optimizer="sgd", more=(),
                 strategy=None, model="mlp", data="fashion-mnist", env=None):
        self.bench = b
        self.env = dict(os.environ, MESHFLOW_RUN_DIR=b.dir, MESHFLOW_LOG="info", **(env or {}))
        os.chmod(b.dir, 0o700)
        strategy = strategy or "parameter_server mode=" + mode
        args = b.train("--name", "job", "--threads", "1", "--strategy", strategy,
                       "--lr", "0.01", *more, steps=steps, optimizer=optimizer, model=model, data=data)
        self.p = subprocess.Popen(b.launch(workers, ps, args, *launch), env=self.env, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        b.running.append(self.p)

    def tasks(self):
        r = subprocess.run([self.bench.program, "job", "status", "--json"], env=self.env, capture_output=True, text=True)
        jobs = json.loads(r.stdout)["jobs"] if r.stdout else []
        return {t["task"]: t for j in jobs for t in j["tasks"] if j["job"] == "job" and t["alive"]}

    def wait(self, condition, what):
        end = time.monotonic() + 60
        while True:
            tasks = self.tasks()
            if condition(tasks):
                return tasks
            if self.p.poll() is not None:
                raise harness.Failed("it ended before: %s: %s" % (what, self.p.communicate()[1][-1000:]))
            check(time.monotonic() < end, "it did not happen: %s: %s" % (what, tasks))

    def wait_updates(self, n):
        return self.wait(lambda t: t.get("ps 0", {"step": 0})["step"] >= n, "%d updates" % n)

    def await_kill(self, updates, *victims, count="ps"):
        """Waits until the servers have done this many steps and the victims are running. count: the task whose steps count."""
        def ready(t):
            done = [x["step"] for name, x in t.items() if name.startswith(count)]
            return max(done, default=0) >= updates and all(v in t and t[v]["step"] > 0 for v in victims)
        tasks = self.wait(ready, "%s at update %d" % (victims, updates))
        for v in victims:
            os.kill(tasks[v]["pid"], signal.SIGKILL)

    def end(self):
        out, err = self.p.communicate(timeout=120)
        self.said = err
        check(self.p.returncode == 0, "exit code %d: %s" % (self.p.returncode, err[-1000:]))
        return json.loads([x for x in out.splitlines() if x.startswith("{")][-1])


def versions(tasks):
    """By slice: what each server holds of it."""
    found = {}
    for name, t in tasks.items():
        for x in t.get("holds", []):
            found.setdefault(x["of"], {})[name] = x["version"]
    return found


def quiet(tasks):
    """A worker is stopped, and all servers wait for it: nothing is under way."""
    waits = [w["for"] for name, t in tasks.items() for w in t["waits"] if name.startswith("ps")]
    return tasks["worker 1"]["state"] == "stopped" and waits == ["worker 1"] * 4


def agree(seen):
    return len({v for x in seen.values() for v in x.values()}) == 1


def look_when_quiet(job):
    """The other tasks soon continue without a stopped one, so it may take several attempts. A waiting server looks
    for new copies in its memory from time to time."""
    while True:
        tasks = job.wait(lambda t: len(t) == 6 and all(x["step"] >= 20 for x in t.values()), "all are there")
        pid = tasks["worker 1"]["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            tasks = job.wait(lambda t: (quiet(t) and agree(versions(t))) or t["ps 0"]["step"] > tasks["ps 0"]["step"] + 100,
                             "it is quiet")
        finally:
            os.kill(pid, signal.SIGCONT)
        if quiet(tasks):
            return tasks


@test
def an_update_reaches_all_copies_of_a_server(b):
    for copies, holders in ((1, 2), (9, 4), (0, 1)):
        job = Job(b, 2, 4, "sync copies=%d" % copies, steps=100000)
        seen = versions(look_when_quiet(job))
        check(sorted(seen) == ["ps %d" % i for i in range(4)], "slices: %s" % seen)
        check(all(len(x) == holders and name in x for name, x in seen.items()), "copies=%d: %s" % (copies, seen))
        check(agree(seen), "versions differ: %s" % seen)
        harness.end(job.p)


def kill(job, victim, updates):
    """Waits until there are this many updates and the victim is running."""
    tasks = job.wait(lambda t: t.get("ps 0", {"step": 0})["step"] >= updates and victim in t, victim)
    os.kill(tasks[victim]["pid"], signal.SIGKILL)


@test
def a_lost_server_is_restored_from_a_copy_of_tables(b):
    """Of tables, only the rows that changed are copied again after an update; plain Adam and LAMB change all."""
    kind = dict(model="wide-deep buckets=2000", data="synthetic-ctr", steps=3000)
    for optimizer, memory in (("ftrl", "1"), ("ftrl", "0"), ("adam lazy=true", "1"), ("adam", "1"), ("lamb", "1")):
        want = b.alone("--lr", "0.01", optimizer=optimizer, **kind)["weights_sha256"]
        env = {"MESHFLOW_PS_SHARED_MEMORY": memory}
        job = Job(b, 2, 3, "sync", "--max-restarts", "4", optimizer=optimizer, env=env, **kind)
        for updates, victim in ((100, "ps 1"), (300, "ps 2")):
            job.await_kill(updates, victim)
        got = job.end()
        check(got["weights_sha256"] == want, "%s: other weights than without the loss" % optimizer)


@test
def two_copies_survive_two_neighbours(b):
    want = b.alone("--lr", "0.01", steps=600, optimizer="momentum")["weights_sha256"]
    job = Job(b, 2, 3, "sync copies=2", "--max-restarts", "4", steps=600, optimizer="momentum")
    tasks = job.wait_updates(100)
    for victim in ("ps 0", "ps 1"):
        os.kill(tasks[victim]["pid"], signal.SIGKILL)
    out, err = job.p.communicate(timeout=120)
    check(job.p.returncode == 0 and "nobody is left" not in err, "exit code %d: %s" % (job.p.returncode, err[-1000:]))
    got = json.loads([x for x in out.splitlines() if x.startswith("{")][-1])
    check(got["weights_sha256"] == want, "other weights than without the loss")


@test
def batches_of_a_killed_asynchronous_worker_are_done_by_others_once(b):
    for mode, restarts, victims in (("async", 0, ["worker 1"]), ("semi staleness=1", 4, ["worker 2", "worker 0"])):
        job = Job(b, 3, 2, mode, "--max-restarts", str(restarts))
        for i, victim in enumerate(victims):
            kill(job, victim, 100 + 300 * i)
        got = job.end()
        check(got["updates"] == got["batches"] == [1500, 1500],
              "%s: not every batch once, on both servers: %s" % (mode, got))


@test
def servers_and_workers_of_asynchronous_training_are_killed_and_no_update_is_lost(b):
    """`updates` is the counter of the weights."""
    for mode, steps in (("async", 900), ("semi staleness=1", 900), ("semi quorum=2", 1800)):
        job = Job(b, 3, 2, mode, "--max-restarts", "20", steps=steps, optimizer="momentum")
        for i, victim in enumerate(("ps 0", "worker 1", "ps 1", "worker 0")):
            job.await_kill(100 + 150 * i, victim)
        got = job.end()
        late = got["late_pushes"]
        if "quorum" not in mode:
            check(got["updates"] == got["batches"] == [steps, steps] and late == 0, "%s: %s" % (mode, got))
        check(got["batches"][0] + late == steps, "%s: batches that are neither in an update nor late: %s" % (mode, got))
        check(got["staleness"] <= 1 or "staleness" not in mode, "%s: too far ahead: %s" % (mode, got))


@test
def servers_keep_asynchronous_training_when_all_workers_are_killed(b):
    job = Job(b, 2, 2, "async", "--max-restarts", "9")
    job.await_kill(200, "worker 0", "worker 1")
    got = job.end()
    check(got["updates"] == got["batches"] == [1500, 1500], "not every batch once: %s" % got)


@test
def lost_asynchronous_servers_restore_the_checkpoint_or_end_the_job(b):
    """A server without a neighbour has no copy."""
    job = Job(b, 2, 1, "async", "--max-restarts", "9", more=("--out", b.out("run"), "--save-steps", "50"))
    job.await_kill(500, "ps 0")
    got = job.end()
    check("training continues from the checkpoint" in job.said and got["steps"] == 1500 and
          got["updates"][0] == got["updates"][1] <= 1500 - 400 and got["updates"][0] % 50 == 0,
          "%s\n%s" % (got, job.said[-1000:]))
    job = Job(b, 2, 1, "async", "--max-restarts", "2")
    job.await_kill(100, "ps 0")
    _, err = job.p.communicate(timeout=60)
    check(job.p.returncode != 0 and "is lost" in err and "--save-steps" in err, err[-1000:])


@test
def a_lost_asynchronous_server_without_restart_ends_the_job(b):
    job = Job(b, 2, 2, "async", "--max-restarts", "0", more=("--timeout", "2"))
    job.await_kill(100, "ps 1")
    _, err = job.p.communicate(timeout=60)
    check(job.p.returncode != 0 and "1 of 2 parameter servers" in err and "--max-restarts" in err, err[-1000:])


@test
def checkpoints_count_the_steps_of_all_asynchronous_workers(b):
    for workers in (1, 2, 4):
        out = b.out(str(workers))
        b.served(workers, 2, "--strategy", "parameter_server mode=async", "--out", out, "--save-steps", "10",
                 "--keep", "100", steps=100)
        saved = sorted(int(x[len("model.ckpt-"):-len(".index")]) for x in os.listdir(out) if x.endswith(".index"))
        check(saved == list(range(10, 101, 10)), "%d workers: %s" % (workers, saved))


def updates_without_worker_2(job):
    """100 updates happen while worker 2 is stopped. Then it continues, and the training ends."""
    pid = job.wait_updates(20)["worker 2"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        before = job.wait(lambda t: t["worker 2"]["state"] == "stopped", "worker 2 is stopped")
        after = job.wait_updates(before["ps 0"]["step"] + 100)
    finally:
        os.kill(pid, signal.SIGCONT)
    check(after["worker 2"]["state"] == "stopped" and
          after["worker 2"]["step"] == before["worker 2"]["step"], "it did not stand still: %s" % after)
    return job.end()


@test
def asynchronous_workers_do_not_wait_for_a_stopped_worker(b):
    got = updates_without_worker_2(Job(b, 3, 1, "async", "--all-stay"))
    check(got["updates"] == got["batches"] == [1500, 1500], "not every batch once: %s" % got)


@test
def a_quorum_continues_without_a_stalled_worker(b):
    got = updates_without_worker_2(Job(b, 3, 1, "semi quorum=2", "--all-stay"))
    check(got["late_pushes"] > 0 and got["batches"][0] + got["late_pushes"] == 1500,
          "batches that are neither in an update nor late: %s" % got)
    check(got["updates"][0] * 2 >= got["batches"][0], "updates of more than two pushes: %s" % got)


@test
def three_blocks_of_data_keep_three_of_five_workers_busy(b):
    job = Job(b, 5, 1, "async blocks=3")
    seen = []
    while len(seen) < 5:
        tasks = job.wait(lambda t: len(t) == 6 and all(t["worker %d" % i]["step"] > 0 for i in range(3)) and
                         all(t["worker %d" % i]["state"] == "idle" for i in (3, 4)), "three are busy, two idle")
        seen.append(tasks)
    for tasks in seen:
        for i in range(3):  # of batch b, the step after it is b + 1
            check((tasks["worker %d" % i]["step"] - 1) % 3 == i, "worker %d has another's block: %s" % (i, tasks))
        check(all(tasks["worker %d" % i]["step"] == 0 for i in (3, 4)), "worker 3 or 4 is not idle: %s" % tasks)
    got = job.end()
    check(got["updates"] == got["batches"] == [1500, 1500], "not every batch once: %s" % got)


@test
def gradients_of_the_last_steps_are_pushed(b):
    def after(steps, period):
        return b.served(1, 1, "--strategy", "parameter_server mode=async period=%d" % period,
                        optimizer="sgd", steps=steps)["weights_sha256"]
    check(after(6, 4) != after(4, 4), "steps 5 and 6 have left no trace")
    check(after(3, 4) == after(3, 3), "three steps of a period of four are not a period of three")


@test
def central_storage_over_workers_restarts_killed_workers(b):
    want = b.alone("--lr", "0.01", steps=1500, optimizer="momentum")["weights_sha256"]
    job = Job(b, 3, 1, None, "--max-restarts", "9", steps=1500, optimizer="momentum", strategy="central_storage",
              more=("--out", b.out("run"), "--save-steps", "50"))
    for i, victim in enumerate(("worker 1", "worker 0", "ps 0")):
        job.await_kill(100 + 200 * i, victim, count="worker")
    got = job.end()
    check(got["weights_sha256"] == want, "other weights: %s\n%s" % (got, job.said[-1000:]))
    check("worker 1 was killed by signal 9 (Killed): restart 1 of 9" in job.said, job.said)
    _, err = b.run(b.launch(2, 2, b.train("--strategy", "central_storage")), code=None)
    check("keeps the variables in one parameter server" in err, err[-500:])


@test
def a_restarted_job_resumes_from_its_checkpoint(b):
    for strategy in ("reduce_to_one", "multi_worker_mirrored aggregation=weighted weights=[1,3]"):
        want = b.run([b.program, "launch", "--workers", "2", "--json", "--", *b.train(
            "--strategy", strategy, "--lr", "0.01", steps=500)])[0]["weights_sha256"]
        job = Job(b, 2, 0, None, "--max-restarts", "3", steps=500, optimizer="adam", strategy=strategy,
                  more=("--out", b.out(strategy[:6]), "--save-steps", "50"))
        tasks = job.wait(lambda t: len(t) == 2 and all(x["step"] >= 200 for x in t.values()), "step 200")
        os.kill(tasks["worker 1"]["pid"], signal.SIGKILL)
        got = job.end()
        check("training continues from the checkpoint" in job.said, job.said)
        check(got["weights_sha256"] == want, "%s: other weights" % strategy)


@test
def repeated_kills_do_not_increase_the_restart_delay(b):
    job = Job(b, 2, 2, "sync", "--max-restarts", "99", steps=1000000)
    kills, last = 0, 0
    while kills < 12:
        victim = ("worker 0", "ps 1", "worker 1")[kills % 3]
        tasks = job.wait(lambda t: victim in t and t[victim]["step"] > 0 and
                         max((x["step"] for n, x in t.items() if n.startswith("worker")), default=-1) > last, victim)
        last = max(x["step"] for n, x in tasks.items() if n.startswith("worker"))
        os.kill(tasks[victim]["pid"], signal.SIGKILL)
        kills += 1
    job.wait(lambda t: len(t) == 4 and t["worker 1"]["step"] > last, "it goes on")
    job.p.terminate()
    _, err = job.p.communicate(timeout=60)
    pauses = re.findall(r"Killed\): restart \d+ of 99 in (\S+) s", err)
    check(pauses == ["0.05"] * 12, "pauses: %s" % pauses)


@test
def a_nan_loss_ends_all_tasks_and_is_reported(b):
    _, err = b.run(b.launch(2, 1, b.train("--lr", "1e30", steps=50, optimizer="sgd")), code=None)
    check("the loss is NaN/Inf" in err, err[-400:])


@test
def a_strategy_without_servers_names_the_fix(b):
    _, err = b.run([b.program, *b.train("--strategy", "parameter_server")], code=None)
    check("--ps 1" in err, err)


if __name__ == "__main__":
    harness.main(Bench)
