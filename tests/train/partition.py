#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hosts whose links are cut, lose packets or flap, and overloaded machines.

Usage: partition.py PROGRAM [PATTERN] [--hosts] [--cut SECONDS] [--minutes N]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Training with one process is the oracle: whatever
happens to the links, no minority continues, the weights are the same, bit by bit, and each sample is used once. Prints how
often workers were excluded, and for how long. Hosts are network namespaces with one worker each, and one of them runs
etcd.
"""
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import harness
import hosts
import members
from harness import check, host_test, root_test, test


class Watch:
    """How far each task is, all the time."""

    def __init__(self, b):
        self.b = b
        self.seen = [] # (time, steps by name)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        while not self.stop.wait(0.02):
            self.seen.append((time.monotonic(), self.b.steps()))

    def close(self):
        self.stop.set()
        self.thread.join()

    def between(self, begin, end):
        return [(t, s) for t, s in self.seen if begin <= t <= end]

    def pause(self, begin, end):
        """The longest time without a step."""
        last, longest, best = begin, 0, -1
        for t, steps in self.between(begin, end):
            step = max(steps.values(), default=-1)
            if step > best:
                longest, last, best = max(longest, t - last), t, step
        return max(longest, end - last)

    def rate(self, begin, end):
        at = [(t, max(s.values())) for t, s in self.between(begin, end) if s]
        return (at[-1][1] - at[0][1]) / (at[-1][0] - at[0][0]) if len(at) > 1 else 0


class Bench(members.Bench):
    def __init__(self, args):
        super().__init__(args)
        self.cut, self.minutes = args.cut, args.minutes
        self.hosts = self.watch = None
        self.store = "file:" + self.out("store")
        self.data = "fashion-mnist"
        self.transport = []
        self.folders = {} # in which workers run, by index
        self.others = [] # processes that are not workers

    def close(self):
        if self.watch:
            self.watch.close()
        for p in self.others:
            p.send_signal(signal.SIGCONT)
            p.kill()
            p.wait()
        for p in self.running:
            if p.poll() is None:
                p.send_signal(signal.SIGCONT)
                p.kill()
        super().close()
        if self.hosts:
            self.hosts.close()

    # ---- hosts ----

    def make_hosts(self, n):
        """One for each of n workers, and one more for etcd."""
        self.hosts = hosts.Hosts(n + 1)
        self.addresses = [self.hosts.address(i) + ":2222" for i in range(n)]
        self.run("cert", "--out", self.out("tls"),
                 *[x for i in range(n + 1) for x in ("--host", self.hosts.address(i))])
        self.start_etcd(n)

    def start_etcd(self, host):
        def tls(name):
            return self.out("tls/%s.pem" % name)

        url = "https://%s:%%d" % self.hosts.address(host)
        with open(self.out("etcd.log"), "a") as log:
            self.etcd = subprocess.Popen(
                [*self.hosts.on(host), "etcd", "--data-dir", self.out("etcd"), "--listen-client-urls", url % 2379,
                 "--advertise-client-urls", url % 2379, "--listen-peer-urls", "http://127.0.0.1:2380",
                 "--initial-advertise-peer-urls", "http://127.0.0.1:2380", "--initial-cluster",
                 "default=http://127.0.0.1:2380", "--unsafe-no-fsync", "--client-cert-auth", "--trusted-ca-file",
                 tls("ca"), "--cert-file", tls("cert"), "--key-file", tls("key")], stdout=log, stderr=log)
        self.others.append(self.etcd)
        self.store = "etcd://%s:2379/job" % self.hosts.address(host)

    def start(self, index, command):
        """Parameter servers follow the workers."""
        cluster = {"worker": self.addresses[:self.n]}
        task = {"type": "worker", "index": index}
        if self.servers:
            cluster["ps"] = self.addresses[self.n:]
        if index >= self.n:
            task = {"type": "ps", "index": index - self.n}
        before = self.hosts.on(index) if self.hosts else []
        more = ["--tls-dir", self.out("tls")] if self.hosts else []
        with open(self.log(index), "a") as log:
            p = subprocess.Popen([*before, self.program, *command, *more], stdout=subprocess.PIPE, stderr=log,
                                 text=True, cwd=self.folders.get(index),
                                 env={**self.env, "MESHFLOW_THREADS": "1", "MESHFLOW_STORE": self.store,
                                      "TF_CONFIG": json.dumps({"cluster": cluster, "task": task})})
        self.running.append(p)
        self.workers[index] = p

    def run(self, *command):
        r = subprocess.run([self.program, *command], capture_output=True, text=True, timeout=600, env=self.env,
                           cwd=self.folders.get(0))
        check(r.returncode == 0, "%s: %s" % (" ".join(command), r.stdout + r.stderr))
        return r.stdout

    # ---- a job that can be terminated ----

    def train(self, *more, steps=10000000):
        own = ["--test", self.data, "--cache", "off", "--timeout", "4"] if self.folders else []
        return ["train", "--model", "mlp", "--data", self.data, "--batch", "32", "--steps", str(steps), "--seed",
                "3", "--optimizer", "momentum", "--lr", "0.05", "--quiet", "--no-test", "--json", *own, *more]

    def begin_hosts(self, n):
        self.make_hosts(n)
        self.begin(n)

    def begin(self, n, servers=0):
        """n workers, well under way."""
        self.folder = self.out("run")
        self.n = n
        while not self.hosts and len(self.addresses) < n + servers:
            self.new_address()
        self.servers = servers
        for i in range(n + servers):
            self.start(i, self.train("--out", self.folder, *self.transport))
        self.await_step(20)
        self.watch = Watch(self)

    def end_all(self):
        """All leave; the last one has saved. What they have done, alone, is the same."""
        self.watch.close()
        for p in self.workers.values():
            p.terminate()
        for i, p in self.workers.items():
            try:
                p.communicate(timeout=120)
            except subprocess.TimeoutExpired:
                check(False, "worker %d hangs\n%s" % (i, self.logs()))
            check(p.returncode in (0, harness.STOPPED), "worker %d ended with %d\n%s" % (i, p.returncode, self.logs()))
        with open(os.path.join(self.folder, "checkpoint")) as f:
            step = int(re.search(r'model_checkpoint_path: ".*-(\d+)"', f.read()).group(1))
        samples = json.loads(self.run("audit", self.folder, "--json"))
        check(samples["last_step"] == step, "the ledger of %d steps: %s\n%s" % (step, samples, self.logs()))
        self.run(*self.train("--out", self.out("alone"), steps=step))
        diff = subprocess.run([self.program, "ckpt", "diff", self.folder, self.out("alone")],
                              capture_output=True, text=True)
        check(diff.returncode == 0, "other weights at step %d\n%s%s" % (step, diff.stdout, self.logs()))
        return step

    # ---- what has happened ----

    def all(self):
        return {"worker %d" % i for i in range(self.n)} | {"ps %d" % i for i in range(self.servers)}

    def epochs(self):
        """The members of each epoch; the first epoch has all."""
        found = {1: self.all()}
        for epoch, names in re.findall(r"epoch (\d+): training continues with (.*?) after", self.logs()):
            found[int(epoch)] = set(names.split(", "))
        return [found[k] for k in sorted(found)]

    def evictions(self):
        all_epochs = self.epochs()
        return sum(len(a - b) for a, b in zip(all_epochs, all_epochs[1:]))

    def await_epoch(self, names):
        end = time.monotonic() + 120
        while self.epochs()[-1] != names:
            check(time.monotonic() < end, "%s do not go on\n%s" % (names, self.logs()))
            time.sleep(0.02)

    def await_all(self):
        self.await_epoch(self.all())

    def await_progress(self, steps=20):
        step = max(self.steps().values())
        for i in range(self.n):
            self.await_step(step + steps, "worker %d" % i)


def say(text):
    print("#   " + text, flush=True)


def heal(b):
    for i in range(b.hosts.n):
        b.hosts.heal(i)


def disturb(b, what, cut, seconds, silent=(), heal=heal):
    """cut() the links for this long, then heal(). Tasks named in `silent` must make no progress meanwhile. Returns the progress of
    the others, and how all tasks recovered."""
    begin = time.monotonic()
    time.sleep(2)
    healthy = b.watch.rate(begin, time.monotonic())
    before, begin = b.evictions(), time.monotonic()
    cut()
    time.sleep(max(0, begin + seconds - time.monotonic()))
    end = time.monotonic()
    heal(b)
    b.await_progress()
    b.await_all()
    back = time.monotonic()
    for name in silent: # the step that was under way may end
        alone = [s[name] for _, s in b.watch.between(begin + 0.3, end) if name in s]
        check(not alone or alone[-1] <= alone[0] + 1, "%s went on: %s\n%s" % (name, alone, b.logs()))
    say("%s for %g s: %d evictions, %.0f %% of the healthy rate, all stood still for %.1f s, all went on "
        "%.1f s after it" % (what, seconds, b.evictions() - before, 100 * b.watch.rate(begin, end) / healthy,
                             b.watch.pause(begin, back), back - end))


def cut_off(b, host, seconds):
    name = "worker %d" % host
    disturb(b, name + " cut off", lambda: b.hosts.drop(host), seconds, [name])


@root_test
def a_link_that_is_cut_for_seconds_costs_no_step(b):
    """First between a worker and all others, then between the store and all workers."""
    b.begin_hosts(3)
    cut_off(b, 2, 5)
    disturb(b, "the store cut off", lambda: b.hosts.drop(3), 3)
    b.end_all()


@host_test
def a_host_that_is_cut_off_rejoins(b):
    """Cut off from all others, and from the store."""
    b.begin_hosts(3)
    cut_off(b, 2, 1)
    cut_off(b, 2, 5)
    cut_off(b, 0, 5) # the chief
    cut_off(b, 1, b.cut)
    b.end_all()


@host_test
def a_host_that_only_sends_or_only_receives(b):
    b.begin_hosts(3)
    for way in "in", "out":
        disturb(b, "worker 2 has no way %s" % way, lambda: b.hosts.drop(2, ways=[way]), 10, ["worker 2"])
    b.end_all()


@host_test
def two_hosts_that_do_not_reach_each_other(b):
    """But the third one and the store: no lease ends."""
    b.begin_hosts(3)
    disturb(b, "workers 1 and 2 cut off from each other", lambda: b.hosts.drop(2, 1), 30)
    b.end_all()


@host_test
def workers_without_the_store_wait(b):
    """Worker 2 alone reaches the store, and continues; the two others do not."""
    b.begin_hosts(3)
    disturb(b, "workers 0 and 1 cut off from worker 2 and the store",
            lambda: [b.hosts.drop(i, 0, 1) for i in (2, 3)], 20, ["worker 0", "worker 1"])
    b.end_all()


@host_test
def training_continues_without_the_store(b):
    b.begin_hosts(3)
    disturb(b, "the store cut off", lambda: b.hosts.drop(3), 10)
    b.end_all()


@host_test
def a_link_that_loses_packets(b):
    b.begin_hosts(3)
    disturb(b, "30 % of what worker 2 gets and sends is lost", lambda: b.hosts.drop(2, share=30), 30)
    b.end_all()


@host_test
def a_link_that_flaps(b):
    b.begin_hosts(3)

    def flap():
        for _ in range(10):
            b.hosts.drop(2)
            time.sleep(1)
            b.hosts.heal(2)
            time.sleep(1)
    disturb(b, "worker 2 cut off and healed every second", flap, 20)
    b.end_all()


# ---- hosts that are not cut off ----


@host_test
def a_second_process_of_a_task_has_no_effect(b):
    b.begin_hosts(3)
    first = b.workers[1]
    b.start(1, b.train("--out", b.folder))
    second, b.workers[1] = b.workers[1], first
    check(second.wait(60) == 1 and "there is a worker 1 already" in b.logs(), b.logs())
    check(len(b.epochs()) == 1, "somebody was disturbed\n" + b.logs())
    b.end_all()


@host_test
def a_worker_that_is_stopped_for_a_long_time(b):
    """When it wakes up, it cannot change anything, and rejoins. One after the other, so that each of them is chief once, and
    the first one again."""
    b.begin_hosts(3)
    for i in 0, 1, 2:
        disturb(b, "worker %d stopped" % i, lambda: b.workers[i].send_signal(signal.SIGSTOP), 10,
                ["worker %d" % i], lambda b: b.workers[i].send_signal(signal.SIGCONT))
    check(b.logs().count("continued without it; it rejoins") == 3, b.logs())
    b.end_all()


@host_test
def load_does_not_exclude_workers(b):
    """Four workers and two servers on a machine that has eight other things to do for each two cores."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
             for _ in range(4 * len(os.sched_getaffinity(0)))]
    b.others += loops
    b.begin(4, servers=2)
    time.sleep(60 * b.minutes)
    longer = re.findall(r"holds a lease of (\S+) s", b.logs())
    say("%g minutes, %d steps: %d evictions; leases of up to %s s" %
        (b.minutes, max(b.steps().values()), b.evictions(), max(longer, key=float, default="3")))
    for p in loops:
        p.kill()
    check(b.evictions() == 0, b.logs())
    b.await_progress()
    b.end_all()


@test
def the_time_of_day_does_not_matter(b):
    """The clock jumps two hours forwards and backwards every second, while a worker is stopped and rejoins."""
    shim = b.out("wall_clock.so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wall_clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, source], check=True)
    b.env.update(LD_PRELOAD=shim, MESHFLOW_LEASE_MS="1000")
    now = subprocess.run(["date", "+%s"], capture_output=True, text=True, env=b.env).stdout
    check(abs(int(now) - time.time()) > 3000, "the time of day is what it is: " + now)
    b.transport = ["--transport", "grpc"]
    b.begin(3)
    time.sleep(3)
    check(b.evictions() == 0, b.logs())
    b.workers[1].send_signal(signal.SIGSTOP)
    b.await_epoch({"worker 0", "worker 2"})
    b.workers[1].send_signal(signal.SIGCONT)
    b.await_all()
    b.await_progress()
    check(b.evictions() == 1, b.logs())
    b.end_all()


@test
def a_worker_that_hangs_is_excluded(b):
    """It is alive and renews its lease, but makes no progress because its input never arrives."""
    b.data = "images"
    b.env["MESHFLOW_LEASE_MS"] = "1000"
    for i in range(3):
        b.folders[i] = b.out("host%d" % i)
        harness.write_images(os.path.join(b.folders[i], "images"), 32, 16)
    b.begin(3)
    path = os.path.join(b.folders[2], "images/class1/7.png")
    os.rename(path, path + ".kept")
    os.mkfifo(path)
    begin = time.monotonic()
    b.await_epoch({"worker 0", "worker 1"})
    say("left out after %.1f s" % (time.monotonic() - begin))
    with open(path + ".kept", "rb") as f, open(path, "wb") as to:
        os.rename(path + ".kept", path)
        to.write(f.read())
    b.await_all()
    b.await_progress()
    b.end_all()


if __name__ == "__main__":
    options = harness.parser()
    options.add_argument("--kills", type=int, default=0, help=harness.argparse.SUPPRESS)
    options.add_argument("--cut", type=float, default=60, help="seconds, of the longest cut")
    options.add_argument("--minutes", type=float, default=0.5, help="of load")
    harness.main(Bench, options)
