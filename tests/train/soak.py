#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training with a fault every five seconds: processes are killed, one or two at once, stopped for a while, terminated,
and new ones join.

Usage: soak.py PROGRAM [PATTERN] [--minutes 10] [--seed N] [--every 5] [--lease-ms 3000]

No hang, no lost step, the weights of one process, each sample once. Two numbers measure the useful time:

  useful   1 - lost / all. Lost time is the sum of the pauses: every gap between two steps that is longer than
           four typical steps, minus one typical step. The typical step is the median of the 200 steps around it:
           few of them are affected by a fault, and load of the machine does not count as lost time.
  pace     steps divided by the steps at the speed of the first 20 s, in which there are no faults: includes
           pauses, and slower steps while processes start and load their data on the same cores. Meaningful only
           on an idle machine.

Prints TAP lines and, last, `N passed, N failed, N skipped`.
"""
import os
import random
import signal
import statistics
import threading
import time

import chaos
import harness
from chaos import figures
from harness import check, test

QUIET = 20  # seconds before the first fault


def time_lost(gaps):
    """Seconds, see above."""
    lost = 0
    for i, g in enumerate(gaps):
        usual = statistics.median(gaps[max(0, i - 100):i + 101])
        lost += g - usual if g > 4 * usual else 0
    return lost


class Soak(chaos.Cluster):
    def __init__(self, args):
        super().__init__(args)
        self.random = random.Random(args.seed)
        self.env["MESHFLOW_LEASE_MS"] = str(args.lease_ms)
        self.batch = 64
        self.stopped = {}  # pid: the thread that wakes it up
        self.counts, self.times = {}, {}

    # ---- whom ----

    def there(self, role):
        """Names of this role that train or serve, and are not stopped."""
        tasks, pids = self.tasks(), self.pids()
        return [n for n in sorted(pids) if n.startswith(role) and pids[n] not in self.stopped and
                (role != "worker" or tasks[n].step + 100 > self.commits.best)]

    def choose(self, role, but=()):
        """None: another task must remain. Servers hold each other's copies, so both must be running, and for
        some time."""
        names = [n for n in self.there(role) if n not in but]
        if len(names) < 2:
            return None
        if role == "ps" and not all(self.served_since(n) > 1 for n in names):
            return None
        return self.random.choice(names)

    def served_since(self, name):
        """Seconds that it runs."""
        with open("/proc/%d/stat" % self.pids()[name]) as f:
            start = int(f.read().rsplit(")", 1)[1].split()[19])
        with open("/proc/uptime") as f:
            return float(f.read().split()[0]) - start / os.sysconf("SC_CLK_TCK")

    # ---- faults: each returns a description, or None ----

    def kill(self, *roles):
        names = []
        for r in roles:
            names.append(self.choose(r, names))
        if None in names:
            return None
        pids = self.pids()
        for n in names:
            os.kill(pids[n], signal.SIGKILL)
        return "killed " + " and ".join(names)

    def stop(self):
        name = self.choose(self.random.choice(self.roles))
        if not name or self.stopped:
            return None
        pid, seconds = self.pids()[name], self.random.uniform(1, 10)

        def wake():
            time.sleep(seconds)
            if chaos.is_alive(pid):
                os.kill(pid, signal.SIGCONT)
            time.sleep(1)
            del self.stopped[pid]

        self.stopped[pid] = threading.Thread(target=wake, daemon=True)
        os.kill(pid, signal.SIGSTOP)
        self.stopped[pid].start()
        return "stopped %s for %.1f s" % (name, seconds)

    def come(self):
        if len(self.there("worker")) > 4:
            return None
        self.join()
        return "one more comes"

    def leave(self):
        """Without masters, workers that left are not restarted, so only workers that joined leave."""
        stay = () if self.masters else ["worker %d" % i for i in range(3)]
        name = self.choose("worker")
        if not name or name in stay:
            return None
        os.kill(self.pids()[name], signal.SIGTERM)
        return "told %s to leave" % name

    def faults(self):
        one = [lambda r=r: self.kill(r) for r in (self.roles * 3)[:3]]
        two = [lambda: self.kill("worker", "worker")]
        if "ps" in self.roles:
            two += [lambda: self.kill("worker", "ps"), lambda: self.kill("worker", "master"),
                    lambda: self.kill("ps", "master")]
        return [*one, lambda: self.random.choice(two)(), self.stop, self.come, self.leave]

    # ---- all of it ----

    def torment(self, minutes):
        faults = self.faults()
        end = time.monotonic() + 60 * minutes
        following = []
        while time.monotonic() < end:
            next_at = time.monotonic() + self.args.every
            what = None
            while not what and time.monotonic() < end:
                now = time.monotonic_ns()
                what = self.random.choice(faults)()
                time.sleep(0 if what else 0.05)
            if what:
                following.append((now, what))
                print("#   %6.1f s, step %d: %s" % ((now - self.begin) * 1e-9, self.commits.best, what),
                      flush=True)
            while time.monotonic() < min(next_at, end):
                check(self.launcher.poll() is None, "the launcher has ended\n" + self.said()[-8000:])
                check(time.monotonic_ns() - self.commits.times[-1][0] < 60e9,
                      "no step for 60 s\n" + self.said()[-8000:])
                time.sleep(0.05)
        return following

    def tell(self, faults, begin, end):
        mean = (begin - self.begin) * 1e-9 / self.commits.steps(self.begin, begin)
        total = (end - begin) * 1e-9
        lost = time_lost([g for g, _ in self.commits.gaps(begin, end)])
        steps = self.commits.steps(begin, end)
        print("#   %d faults in %.0f s, %d steps; a step usually takes %.1f ms, with faults %.1f ms" %
              (len(faults), total, steps, mean * 1e3, total / steps * 1e3))
        print("#   useful %.1f %% of the time; pace %.1f %% of that without faults; load %.1f" %
              (100 * (1 - lost / total), 100 * steps * mean / total, os.getloadavg()[1]))
        for kind in ("killed", "stopped", "one more", "told"):
            ms = [self.commits.after(t, 0.1) for t, what in faults if what.startswith(kind)]
            ms = [x for x in ms if x is not None]
            if ms:
                print("#   %s: until the next step %s" % (kind, figures(ms)))


def soak(b, **kind):
    out = b.out("run")
    b.roles = ["worker", *(["ps", "master"] if "ps" in kind else [])]
    b.launch("--out", out, "--save-steps", "200", restarts=100000, **kind)
    b.await_step(30)
    b.begin = time.monotonic_ns()
    time.sleep(QUIET)
    begin = time.monotonic_ns()
    faults = b.torment(b.args.minutes)
    b.tell(faults, begin, time.monotonic_ns())
    while b.stopped:
        time.sleep(0.1)
    check(b.commits.after(time.monotonic_ns()) is not None, "it does not go on")
    b.check_bits(out)


@test
def workers_servers_and_masters(b):
    soak(b, ps=2, masters=2)


@test
def workers_alone(b):
    soak(b)


if __name__ == "__main__":
    options = harness.parser()
    options.add_argument("--minutes", type=float, default=10)
    options.add_argument("--every", type=float, default=5, help="seconds between faults")
    options.add_argument("--lease-ms", type=int, default=3000, help="after which one that stands still is lost")
    options.add_argument("--seed", type=int, default=random.randrange(1000000))
    harness.main(Soak, options)
