# SPDX-License-Identifier: Apache-2.0
"""Launched jobs whose processes are killed: identifies tasks and measures when each step is done.

Reads the status pages of tasks (src/observe/status_page.h) directly from their files every few milliseconds, so that the
measurement disturbs the job as little as possible.
"""
import bisect
import collections
import json
import mmap
import os
import re
import signal
import statistics
import struct
import subprocess
import threading
import time

import harness
from harness import check

# board_file.h: magic, version, bytes, seq, wish; then the page: job, task, host, pid, ..., step, ...
HEAD = struct.Struct("<8sIIIi")
PAGE = struct.Struct("<64s32s64sq 48x 16x 8x q 16x q 48x 2q".replace(" ", ""))
VERSION = 5

Board = collections.namedtuple("Board", "task pid step stepped_ns shards")


class Boards:
    """All tasks in a folder of status pages."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {} # name: (inode, memory)

    def scan(self):
        found = {}
        for e in os.scandir(self.folder):
            if "~" not in e.name:
                continue
            try:
                inode = e.inode()
                if e.name in self.files and self.files[e.name][0] == inode:
                    found[e.name] = self.files[e.name]
                    continue
                with open(e.path, "rb") as f:
                    found[e.name] = (inode, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ))
            except (OSError, ValueError): # removed, or not created yet
                continue
        self.files = found

    def read(self, memory):
        """None: there is nothing yet. A page that is being written is read again; of one whose writer was
        killed or stopped meanwhile we take what there is."""
        for _ in range(100):
            magic, version, _, seq, _ = HEAD.unpack_from(memory)
            if magic[:7] != b"mfboard":
                return None
            check(version == VERSION, "boards have version %d: see to PAGE" % version)
            _, task, _, pid, step, stepped_ns, _, shards = PAGE.unpack_from(memory, HEAD.size)
            if seq % 2 == 0 and HEAD.unpack_from(memory)[3] == seq:
                break
        return Board(task.split(b"\0")[0].decode(), pid, step, stepped_ns, shards)

    def all(self):
        return [b for b in (self.read(m) for _, m in list(self.files.values())) if b]


class Commits:
    """When the job first completed each step: a thread that reads the workers' status pages."""

    def __init__(self, folder):
        self.boards = Boards(folder)
        self.since = time.monotonic_ns() # status pages of tasks that died before are ignored
        self.times = [] # (ns, step), ascending
        self.best = 0
        self.over = False
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        n = 0
        while not self.over:
            if n % 8 == 0:
                self.boards.scan()
            n += 1
            for b in self.boards.all():
                if b.task.startswith("worker") and b.step > self.best and b.stepped_ns > self.since:
                    self.best = b.step
                    self.times.append((b.stepped_ns, b.step))
            time.sleep(0.003)

    def close(self):
        self.over = True
        self.thread.join()

    def gaps(self, begin, end):
        """Seconds between steps that follow each other, and between steps and the ends; each with the
        number of steps it brought."""
        inside = [(t, s) for t, s in self.times if begin <= t <= end]
        before = [s for t, s in self.times if t < begin]
        last_t, last_s, out = begin, before[-1] if before else 0, []
        for t, s in inside:
            out.append(((t - last_t) * 1e-9, s - last_s))
            last_t, last_s = t, s
        return out + [((end - last_t) * 1e-9, 0)]

    def usual(self, begin, end):
        """Seconds of a step: the median."""
        each = [g / n for g, n in self.gaps(begin, end)[1:-1] if n > 0]
        check(each, "no steps were done")
        return statistics.median(each)

    def steps(self, begin, end):
        return sum(n for _, n in self.gaps(begin, end))

    def after(self, ns, at_most=60):
        """Milliseconds from a moment until the first step that began after it is done: a step in progress may
        still complete, so this is the second one."""
        end = time.monotonic() + at_most
        while True:
            times = list(self.times)
            at = bisect.bisect_right(times, (ns, 0))
            step = (times[at - 1][1] if at > 0 else 0) + 2
            for t, s in times[at:]:
                if s >= step:
                    return (t - ns) * 1e-6
            if time.monotonic() > end:
                return None
            time.sleep(0.002)


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(x) for x in f.read().split()]


def master_of(pid):
    """The task's name; None: not a task, or already removed."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as f:
            m = re.search(rb'"task":\s*{"type":\s*"master",\s*"index":\s*(\d+)', f.read())
    except OSError:
        return None
    return "master " + m.group(1).decode() if m else None


def figures(ms):
    """Of times, in words."""
    ms = sorted(ms)
    return "median %.0f ms, p99 %.0f ms, longest %.0f ms (%d)" % (
        statistics.median(ms), ms[min(len(ms) - 1, int(0.99 * len(ms)))], ms[-1], len(ms))


class Cluster(harness.Bench):
    """A job that is launched, and one process as its oracle."""

    def __init__(self, args):
        super().__init__(args)
        os.chmod(self.dir, 0o700)
        os.mkdir(self.out("boards"), 0o700)
        self.env = {**os.environ, "MESHFLOW_RUN_DIR": self.out("boards"), "MESHFLOW_LOG": "info",
                    "MESHFLOW_THREADS": "1"}
        self.args = args
        self.commits = Commits(self.out("boards"))
        self.launcher = None
        self.names = {} # of masters, by their processes
        self.joined = []
        self.batch = 32

    def close(self):
        tasks = self.tasks()
        for b in tasks.values():
            os.kill(b.pid, signal.SIGCONT)
        for p in self.running:
            harness.end(p)
        for b in tasks.values(): # of a launcher that was killed
            if is_alive(b.pid):
                os.kill(b.pid, signal.SIGKILL)
        self.commits.close()
        super().close()

    def restart_watch(self):
        """What was done so far does not count any more."""
        self.commits.close()
        self.commits = Commits(self.out("boards"))

    def train(self, *more, steps=1000000):
        return ["train", "--model", "fashion-cnn", "--data", "fashion-mnist", "--batch", str(self.batch),
                "--steps", str(steps), "--seed", "3", "--optimizer", "momentum", "--lr", "0.05", "--quiet",
                "--no-test", "--json", *more]

    def launch(self, *more, workers=3, ps=0, masters=0, restarts=1000, steps=1000000):
        """A job named "chaos"; its output is written to files."""
        roles = ["--workers", str(workers), *(["--ps", str(ps)] if ps else []),
                 *(["--masters", str(masters)] if masters else [])]
        with open(self.out("out"), "a") as out, open(self.out("err"), "a") as err:
            self.launcher = subprocess.Popen(
                [self.program, "launch", *roles, "--max-restarts", str(restarts), "--json", "--",
                 *self.train("--name", "chaos", *more, steps=steps)], env=self.env, stdout=out, stderr=err)
        self.running.append(self.launcher)
        self.masters = masters

    def join(self):
        with open(self.out("err"), "a") as err:
            p = subprocess.Popen([self.program, "job", "join", "chaos"], env=self.env, stdout=err, stderr=err)
        self.running.append(p)
        self.joined.append(p)

    def said(self):
        with open(self.out("err"), errors="replace") as f:
            return f.read()

    # ---- tasks ----

    def tasks(self):
        """The boards of tasks that live, by name."""
        return {b.task: b for b in self.commits.boards.all() if is_alive(b.pid)}

    def pids(self):
        """With masters, which have no board: the launcher's children."""
        found = {name: b.pid for name, b in self.tasks().items()}
        if self.masters:
            for pid in children(self.launcher.pid):
                name = self.names.get(pid) or master_of(pid)
                if name and is_alive(pid):
                    self.names[pid] = name
                    found[name] = pid
        return found

    def wait(self, condition, what, patience=120):
        end = time.monotonic() + patience
        while not condition():
            check(self.launcher.poll() is None, "%s: the launcher has ended with %s\n%s" %
                  (what, self.launcher.poll(), self.said()[-6000:]))
            check(time.monotonic() < end, "it did not happen: %s; there are %s\n%s" %
                  (what, self.tasks(), self.said()[-6000:]))
            time.sleep(0.03)

    def wait_gone(self, pids):
        end = time.monotonic() + 60
        while any(is_alive(pid) for pid in pids):
            check(time.monotonic() < end, "they do not die")
            time.sleep(0.005)

    def await_step(self, step):
        self.wait(lambda: self.commits.best >= step, "step %d" % step)

    def await_all(self, names):
        """These are there, and train or serve."""
        def there():
            pids, tasks = self.pids(), self.tasks()
            lately = self.commits.times[-10][0]
            return all(n in pids and (n.startswith("master") or
                                      n in tasks and tasks[n].stepped_ns > lately) for n in names)
        self.wait(there, "all of %s are there" % (names,))

    # ---- the end ----

    def finish(self):
        """Interrupted, the job ends after a step: (steps, weights). Those of one process that does as many
        are the same."""
        self.launcher.send_signal(signal.SIGINT)
        try:
            self.launcher.wait(120)
        except subprocess.TimeoutExpired:
            check(False, "the job does not end\n" + self.said()[-6000:])
        for p in self.joined:
            p.wait(60)
        with open(self.out("out")) as f: # and on standard error, where the chief is not worker 0 any more
            lines = f.readlines() + self.said().splitlines()
        results = [json.loads(l[l.index("{"):]) for l in lines if "weights_sha256" in l]
        told = {(r["steps"], r["weights_sha256"]) for r in results}
        check(len(told) == 1, "%d results: %s\n%s" % (len(told), told, self.said()[-6000:]))
        return told.pop()

    def check_bits(self, out):
        steps, sha = self.finish()
        r = subprocess.run([self.program, *self.train(steps=steps)], capture_output=True, text=True,
                           timeout=3600, env={**self.env, "MESHFLOW_THREADS": "2"})
        check(r.returncode == 0, r.stderr)
        alone = json.loads(r.stdout.splitlines()[-1])["weights_sha256"]
        check(alone == sha, "other weights after %d steps: %s, not %s\n%s" % (steps, sha, alone, self.said()))
        r = subprocess.run([self.program, "audit", out], capture_output=True, text=True, timeout=600)
        check(r.returncode == 0, r.stdout + r.stderr)
        return steps
