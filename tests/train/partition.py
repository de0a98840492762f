#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hosts whose links are cut, lose packets or flap, and machines with too much to do.

Usage: partition.py PROGRAM [PATTERN] [--hosts] [--cut SECONDS] [--minutes N]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Training alone is the oracle: whatever becomes of
links, nobody goes on by itself, the weights are the same to the bit, and each sample is used once. How often
somebody was left out, and how long it took, is printed. Hosts are network namespaces with a worker each, and
one of them has etcd.
"""
import json
import os
import re
import signal
import subprocess
import threading
import time

import harness
import hosts
import members
from harness import check, host_test, test


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
        """The longest time in which nobody did a step."""
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
        self.others = [] # processes that are no workers

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
        if not self.hosts:
            return super().start(index, command)
        task = {"cluster": {"worker": self.addresses}, "task": {"type": "worker", "index": index}}
        with open(self.log(index), "a") as log:
            p = subprocess.Popen([*self.hosts.on(index), self.program, *command, "--tls-dir", self.out("tls")],
                                 stdout=subprocess.PIPE, stderr=log, text=True,
                                 env={**self.env, "MESHFLOW_THREADS": "1", "MESHFLOW_STORE": self.store,
                                      "TF_CONFIG": json.dumps(task)})
        self.running.append(p)
        self.workers[index] = p
        return p

    def run(self, *command):
        r = subprocess.run([self.program, *command], capture_output=True, text=True, timeout=600, env=self.env)
        check(r.returncode == 0, "%s: %s" % (" ".join(command), r.stdout + r.stderr))
        return r.stdout

    # ---- a job that ends when it is told to ----

    def train(self, *more, steps=10000000):
        return ["train", "--model", "mlp", "--data", "fashion-mnist", "--batch", "32", "--steps", str(steps),
                "--seed", "3", "--optimizer", "momentum", "--lr", "0.05", "--quiet", "--no-test", "--json", *more]

    def begin(self, n, servers=0, all_hosts=True):
        """n workers, well under way."""
        self.folder = self.out("run")
        if all_hosts:
            self.make_hosts(n)
        command = self.train("--out", self.folder)
        if all_hosts:
            for i in range(n):
                self.start(i, command)
        else:
            self.start_all(n, command, servers=servers)
        self.n = n
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
            check(p.returncode in (0, 143), "worker %d ended with %d\n%s" % (i, p.returncode, self.logs()))
        self.audit(self.folder)
        with open(os.path.join(self.folder, "checkpoint")) as f:
            step = int(re.search(r'model_checkpoint_path: ".*-(\d+)"', f.read()).group(1))
        self.run(*self.train("--out", self.out("alone"), steps=step))
        diff = subprocess.run([self.program, "ckpt", "diff", self.folder, self.out("alone")],
                              capture_output=True, text=True)
        check(diff.returncode == 0, "other weights at step %d\n%s%s" % (step, diff.stdout, self.logs()))
        return step

    # ---- what has happened ----

    def epochs(self):
        """Who took part, by epoch; the first one has all."""
        found = {1: {"worker %d" % i for i in range(self.n)}}
        for epoch, names in re.findall(r"epoch (\d+), .*: training goes on with (.*) after", self.logs()):
            found[int(epoch)] = {x for x in names.split(", ") if x.startswith("worker")}
        return [found[k] for k in sorted(found)]

    def evictions(self):
        all_epochs = self.epochs()
        return sum(len(a - b) for a, b in zip(all_epochs, all_epochs[1:]))

    def await_all(self):
        """Everybody takes part."""
        end = time.monotonic() + 120
        while len(self.epochs()[-1]) < self.n:
            check(time.monotonic() < end, "not all came back\n" + self.logs())
            time.sleep(0.02)

    def await_progress(self, steps=20):
        step = max(self.steps().values())
        for i in range(self.n):
            self.await_step(step + steps, "worker %d" % i)


def say(text):
    print("#   " + text, flush=True)


def disturb(b, what, cut, seconds, silent=()):
    """cut() the links, for so long. Those who are `silent`, names, do nothing meanwhile. What the others did,
    and how everybody came back."""
    before, begin = b.evictions(), time.monotonic()
    cut()
    time.sleep(max(0, begin + seconds - time.monotonic()))
    end = time.monotonic()
    for i in range(b.hosts.n):
        b.hosts.heal(i)
    b.await_progress()
    b.await_all()
    back = time.monotonic()
    for name in silent: # the step that was under way may end
        alone = [s[name] for _, s in b.watch.between(begin + 0.3, end) if name in s]
        check(not alone or alone[-1] <= alone[0] + 1, "%s went on: %s\n%s" % (name, alone, b.logs()))
    say("%s for %g s: %d evictions, all stood still for %.1f s, all went on %.1f s after it" %
        (what, seconds, b.evictions() - before, b.watch.pause(begin, back), back - end))


def cut_off(b, host, seconds):
    name = "worker %d" % host
    disturb(b, name + " cut off", lambda: b.hosts.drop(host), seconds, [name])


@host_test
def a_host_that_is_cut_off_comes_back(b):
    """Cut off from all others, and from the store."""
    b.begin(3)
    cut_off(b, 2, 1)
    cut_off(b, 2, 5)
    cut_off(b, 0, 5) # the chief
    cut_off(b, 1, b.cut)
    b.end_all()


@host_test
def a_host_that_only_sends_or_only_hears(b):
    b.begin(3)
    for way in "in", "out":
        disturb(b, "worker 2 has no way %s" % way, lambda: b.hosts.drop(2, ways=[way]), 10, ["worker 2"])
    b.end_all()


@host_test
def two_hosts_that_do_not_reach_each_other(b):
    """But the third one and the store: no lease ends."""
    b.begin(3)
    disturb(b, "workers 1 and 2 cut off from each other", lambda: b.hosts.drop(2, 1), 30)
    b.end_all()


@host_test
def those_without_the_store_wait(b):
    """Worker 2 is alone with the store, and goes on; the two others do not."""
    b.begin(3)
    disturb(b, "workers 0 and 1 cut off from worker 2 and the store",
            lambda: [b.hosts.drop(i, 0, 1) for i in (2, 3)], 20, ["worker 0", "worker 1"])
    b.end_all()


@host_test
def without_the_store_training_goes_on(b):
    b.begin(3)
    disturb(b, "the store cut off", lambda: b.hosts.drop(3), 10)
    b.end_all()


@host_test
def a_link_that_loses_packets(b):
    b.begin(3)
    disturb(b, "30 % of what worker 2 gets and sends is lost", lambda: b.hosts.drop(2, share=30), 30)
    b.end_all()


@host_test
def a_link_that_flaps(b):
    b.begin(3)

    def flap():
        for _ in range(10):
            b.hosts.drop(2)
            time.sleep(1)
            b.hosts.heal(2)
            time.sleep(1)
    disturb(b, "worker 2 cut off and healed every second", flap, 20)
    b.end_all()


if __name__ == "__main__":
    options = harness.parser()
    options.add_argument("--kills", type=int, default=0, help=harness.argparse.SUPPRESS)
    options.add_argument("--cut", type=float, default=60, help="seconds, of the longest cut")
    options.add_argument("--minutes", type=float, default=10, help="of load")
    harness.main(Bench, options)
