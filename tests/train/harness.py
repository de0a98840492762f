# SPDX-License-Identifier: Apache-2.0
"""What the suites of this folder share: tests that are functions of a bench, and TAP lines."""
import argparse
import glob
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

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


class Failed(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


def end(p):
    """A launcher's tasks outlive it when it is killed, so it is asked, and asked again, to end them."""
    for ask in (p.terminate, p.terminate, p.kill):
        if p.poll() is not None:
            break
        ask()
        try:
            p.wait(1)
        except subprocess.TimeoutExpired:
            pass
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
    """Trainings that differ in who takes part."""

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

    def sha(self, *more, workers=0, **kind):
        """Of the weights in the end; workers 0: one process that nobody has launched."""
        launch = ["launch", "--workers", str(workers), "--"] if workers else []
        r = self.run([*launch, *self.train(*more, **kind)])
        line = [l for l in r.stdout.splitlines() if "weights_sha256" in l]
        check(len(line) == 1, "%d workers told the result: %s" % (len(line), r.stdout))
        return json.loads(line[0][line[0].index("{"):])["weights_sha256"]

    def start(self, commands, environment={}):
        """Workers without a launcher, each with a command line of its own."""
        base = random.randrange(20000, 60000)
        cluster = {"worker": ["localhost:%d" % (base + i) for i in range(len(commands))]}
        for i, command in enumerate(commands):
            task = {"cluster": cluster, "task": {"type": "worker", "index": i}}
            self.running.append(subprocess.Popen(
                [self.program, *command],
                env={**os.environ, **environment, "TF_CONFIG": json.dumps(task)},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return self.running[-len(commands):]


def await_checkpoint(out):
    """Training is under way."""
    end = time.monotonic() + 60
    while not glob.glob(os.path.join(out, "*.index")):
        check(time.monotonic() < end, "there is no checkpoint")
        time.sleep(0.02)


def parser():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("pattern", nargs="?", default="")
    p.add_argument("--hosts", action="store_true", help="those tests that `make engines` runs, instead")
    return p


def main(bench, options=None):
    """Run the tests whose names have the pattern; bench: makes a bench of the options."""
    args = (options or parser()).parse_args()
    passed = failed = 0
    for fn in HOST_TESTS if args.hosts else TESTS:
        if args.pattern not in fn.__name__:
            continue
        b = bench(args)
        try:
            fn(b)
            passed += 1
            print("ok %d - %s" % (passed + failed, fn.__name__), flush=True)
        except (Failed, subprocess.TimeoutExpired) as e:
            failed += 1
            print("not ok %d - %s" % (passed + failed, fn.__name__))
            print("#   " + str(e).replace("\n", "\n#   "), flush=True)
        finally:
            b.close()
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    sys.exit(failed != 0)
