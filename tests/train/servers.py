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
from harness import check, host_test, test


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
        status = b.run([b.program, "status", "--json"], env=env)[0]
        slow = [t["pid"] for j in status["jobs"] for t in j["tasks"] if t["task"] == "worker 1" and t["step"] > 0]
    slow_down(p, slow[0])
    out, err = p.communicate()
    check("shards are dealt out anew, by speed" in err, err)
    check(json.loads(out)["weights_sha256"] == b.alone(**kind)["weights_sha256"], "other weights")


@test
def messages_do_what_shared_memory_does(b):
    for kind in (dict(model="mlp"), dict(model="wide-deep", data="synthetic-ctr", optimizer="ftrl", steps=8)):
        want = b.alone(**kind)["weights_sha256"]
        got = b.run(b.launch(2, 2, b.train(**kind)), env={"MESHFLOW_PS_SHARED_MEMORY": "0"})[0]
        check(got["weights_sha256"] == want, "%s: other bits" % kind)


@test
def a_checkpoint_of_the_servers_is_that_of_one_process(b):
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
def a_server_that_does_not_see_the_folder_says_so(b):
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
    """Tasks on hosts that are none: what shares no /dev/shm counts as far away. What the chief prints."""
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


@host_test
def workers_of_a_host_push_together(b):
    hosts = [[("worker", 0), ("worker", 1)], [("worker", 2), ("worker", 3)], [("ps", 0), ("ps", 1)]]
    for kind in (dict(model="mlp", optimizer="momentum"),
                 dict(model="wide-deep", data="synthetic-ctr", optimizer="ftrl", steps=8)):
        want, sent = b.alone(**kind)["weights_sha256"], {}
        for by_host in ("true", "false"):
            got = on_hosts(b, hosts, 4, 2, b.train(
                "--strategy", "parameter_server by_host=" + by_host, **kind))
            check(got["weights_sha256"] == want, "%s by_host=%s: other bits" % (kind, by_host))
            sent[by_host] = got["sent_bytes"]
        if kind["model"] == "mlp":  # with the first weights, which the chief sets
            check(sent["true"] < 0.6 * sent["false"], "bytes do not drop by half: %s" % sent)


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
        said = [x for x in err.splitlines() if victim in x and "gone" in x]
        check(said, "nobody names %s: %s" % (victim, err[-600:]))


def gone_after(pid):
    """The second after which each task of a launcher is no more."""
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


@test
def gradients_of_the_last_steps_are_pushed(b):
    def after(steps, period):
        return b.served(1, 1, "--strategy", "parameter_server mode=async period=%d" % period,
                        optimizer="sgd", steps=steps)["weights_sha256"]
    check(after(6, 4) != after(4, 4), "steps 5 and 6 have left no trace")
    check(after(3, 4) == after(3, 3), "three steps of a period of four are not a period of three")


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
