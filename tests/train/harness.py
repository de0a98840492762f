# SPDX-License-Identifier: Apache-2.0
"""What the suites of this folder share: tests that are functions of a bench, and TAP lines."""
import argparse
import functools
import glob
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import zlib

HEALTH = (0, 4, 5)  # exit codes of `job status` and `job hang`: healthy, no progress, a task is dead
STOPPED = 75

TESTS = []
HOST_TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


def host_test(fn):
    """A test that takes root, for its hosts are namespaces, or a processor that shares its time as Linux
    does: part of `make engines`."""
    HOST_TESTS.append(fn)
    return fn


def root_test(fn):
    """A short test with hosts as namespaces: part of `make test` as root, and of `make engines`."""
    HOST_TESTS.append(fn)

    @functools.wraps(fn)
    def if_root(b):
        if os.geteuid() != 0:
            raise Skipped("network namespaces need root")
        fn(b)

    TESTS.append(if_root)
    return fn


class Skipped(Exception):
    """Reports a missing requirement of a test."""


class Failed(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


def end(p):
    """A launcher's tasks outlive it when it is killed, so it is signalled repeatedly to end them."""
    for ask in (p.terminate, p.terminate, p.kill):
        if p.poll() is not None:
            break
        ask()
        try:
            p.wait(1)
        except subprocess.TimeoutExpired:
            pass
    if not (p.stdout and p.stdout.closed): # everything has been read
        p.communicate()


class Bench:
    """A program, a folder to work in, and processes that end with the test."""

    def __init__(self, args):
        self.program = os.path.abspath(args.program)
        self.dir = tempfile.mkdtemp()
        self.running = []

    def out(self, name):
        return os.path.join(self.dir, name)

    def close(self):
        for p in self.running:
            end(p)
        shutil.rmtree(self.dir, ignore_errors=True)


class Trainings(Bench):
    """Trainings that differ in their workers."""

    def train(self, *more, model="mlp", data="fashion-mnist", steps=40, batch=32, seed=3,
              optimizer="momentum", rate=0.05, strategy=None):
        return ["train", "--model", model, "--data", data, "--batch", str(batch), "--steps",
                str(steps), "--seed", str(seed), "--optimizer", optimizer, "--lr", str(rate),
                "--quiet", "--no-test", "--json",
                *(["--strategy", strategy] if strategy else []), *more]

    def run(self, command, code=0):
        r = subprocess.run([self.program, *command], capture_output=True, text=True, timeout=120)
        check(r.returncode == code, "%s: exit code %d, not %d: %s" %
              (" ".join(command), r.returncode, code, r.stderr))
        return r

    def sha(self, *more, workers=0, servers=0, **kind):
        """Of the final weights; workers 0: one process without a launcher."""
        launch = ["launch", "--workers", str(workers), "--ps", str(servers), "--"] if workers else []
        r = self.run([*launch, *self.train(*more, **kind)])
        line = [l for l in r.stdout.splitlines() if "weights_sha256" in l]
        check(len(line) == 1, "%d workers told the result: %s" % (len(line), r.stdout))
        return json.loads(line[0][line[0].index("{"):])["weights_sha256"]

    def start(self, commands, environment={}, logs=None):
        """Workers without a launcher, each with a command line of its own; logs: files for their
        output."""
        base = random.randrange(20000, 60000)
        cluster = {"worker": ["localhost:%d" % (base + i) for i in range(len(commands))]}
        for i, command in enumerate(commands):
            task = {"cluster": cluster, "task": {"type": "worker", "index": i}}
            self.running.append(subprocess.Popen(
                [self.program, *command],
                env={**os.environ, **environment, "TF_CONFIG": json.dumps(task)},
                stdout=subprocess.PIPE, stderr=open(logs[i], "w") if logs else subprocess.PIPE, text=True))
        return self.running[-len(commands):]


class Jobs(Bench):
    """Trainings with status pages, in a private folder."""

    def __init__(self, args):
        super().__init__(args)
        os.chmod(self.dir, 0o700)
        self.env = {**os.environ, "MESHFLOW_RUN_DIR": self.dir}

    def train(self, *more, steps=100000, model="mlp", batch=32, rate=0.05):
        return ["train", "--model", model, "--data", "fashion-mnist", "--batch", str(batch), "--steps",
                str(steps), "--seed", "3", "--lr", str(rate), "--quiet", "--no-test", "--json", *more]

    def run(self, *command, code=0):
        r = subprocess.run([self.program, *command], capture_output=True, text=True, timeout=120,
                           env=self.env)
        well = HEALTH if command[:2] in (("job", "status"), ("job", "hang")) and code == 0 else (code,)
        check(r.returncode in well, "%s: exit code %d, not %d: %s" %
              (" ".join(command), r.returncode, code, r.stderr))
        return r

    def start(self, *command, before=()):
        p = subprocess.Popen([*before, self.program, *command], env=self.env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.running.append(p)
        return p

    def sha(self, p):
        out, err = p.communicate(timeout=120)
        check(p.returncode == 0, "exit code %d: %s" % (p.returncode, err))
        lines = [l for l in out.splitlines() if "weights_sha256" in l]
        check(len(lines) == 1, out + err)
        return json.loads(lines[0][lines[0].index("{"):])["weights_sha256"]

    def jobs(self):
        return {j["job"]: j for j in json.loads(self.run("job", "list", "--json").stdout)["jobs"]}

    def tasks(self, job):
        """Tasks by name; {} if there is no such job."""
        for j in json.loads(self.run("job", "status", "--json").stdout)["jobs"]:
            if j["job"] == job:
                return {t["task"]: t for t in j["tasks"]}
        return {}

    def why(self, job):
        return json.loads(self.run("job", "status", "--json", job).stdout)["jobs"][0]["explanation"]

    def wait(self, condition, what):
        end = time.monotonic() + 60
        while not condition():
            for p in self.running:
                check(p.poll() in (None, 0, STOPPED, -signal.SIGKILL), "%s: %s" % (what, p.poll()))
            check(time.monotonic() < end, "it did not happen: " + what)
            time.sleep(0.05)

    def wait_step(self, job, step, n=1):
        self.wait(lambda: sum(t["step"] >= step for t in self.tasks(job).values()) >= n,
                  "%d tasks of %s at step %d" % (n, job, step))


def steps_meanwhile(step, reference, steps=15):
    """The steps that one job does while another does `steps` of its own: a rate that no load of the machine changes."""
    begin, begin_reference = step(), reference()
    end = time.monotonic() + 240
    while reference() < begin_reference + steps:
        check(time.monotonic() < end, "the job to compare with has stopped")
        time.sleep(0.02)
    return (step() - begin) / (reference() - begin_reference)


SAMPLE_MS = 4, 20, 80
"""What reading a sample takes, for jobs that are compared. Where other programs keep the processors from a job, its
steps take longer than its samples; with samples that take long they do not."""


def move_threads(pid, cores):
    """All threads that the process has now."""
    for tid in os.listdir("/proc/%d/task" % pid):
        try:
            os.sched_setaffinity(int(tid), cores)
        except ProcessLookupError:
            pass  # it has ended


def await_checkpoint(out):
    """Training is under way."""
    end = time.monotonic() + 60
    while not glob.glob(os.path.join(out, "*.index")):
        check(time.monotonic() < end, "there is no checkpoint")
        time.sleep(0.02)


def newest_checkpoint(out):
    """The step of the newest checkpoint that the list of checkpoints names."""
    with open(os.path.join(out, "checkpoint"), encoding="utf-8") as f:
        return int(re.search(r'^model_checkpoint_path: ".*-(\d+)"', f.read(), re.M).group(1))


def write_images(folder, n, side):
    """Pictures that take long to read, in two classes, as PNG."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))

    rng = random.Random(1)
    for i in range(n):
        where = os.path.join(folder, "class%d" % (i % 2))
        os.makedirs(where, exist_ok=True)
        rows = b"".join(b"\4" + bytes(rng.choices(range(16), k=3 * side)) for _ in range(side))
        head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
        with open(os.path.join(where, "%d.png" % i), "wb") as f:
            f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) +
                    chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def parser():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("pattern", nargs="?", default="")
    p.add_argument("--hosts", action="store_true", help="those tests that `make engines` runs, instead")
    return p


def main(bench, options=None):
    """Run the tests whose names have the pattern; bench: makes a bench of the options."""
    args = (options or parser()).parse_args()
    passed = failed = skipped = 0
    for fn in HOST_TESTS if args.hosts else TESTS:
        if args.pattern not in fn.__name__ or fn.__module__ != "__main__": # of a suite that is a part of this
            continue
        b = bench(args)
        try:
            fn(b)
            passed += 1
            print("ok %d - %s" % (passed + failed + skipped, fn.__name__), flush=True)
        except Skipped as e:
            skipped += 1
            print("ok %d - %s # SKIP %s" % (passed + failed + skipped, fn.__name__, e), flush=True)
        except (Failed, subprocess.TimeoutExpired) as e:
            failed += 1
            print("not ok %d - %s" % (passed + failed + skipped, fn.__name__))
            print("#   " + str(e).replace("\n", "\n#   "), flush=True)
        except Exception:  # an error in the test, or an unexpected exception; the other tests still run
            failed += 1
            print("not ok %d - %s" % (passed + failed + skipped, fn.__name__))
            print("#   " + traceback.format_exc().replace("\n", "\n#   "), flush=True)
        finally:
            b.close()
    if passed + failed + skipped == 0:
        failed = 1
        print("not ok 1 - no test matches '%s'" % args.pattern)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    sys.exit(failed != 0)
