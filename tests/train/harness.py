# SPDX-License-Identifier: Apache-2.0
"""What the suites of this folder share: tests that are functions of a bench, and TAP lines."""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


class Failed(Exception):
    pass


class Skipped(Exception):
    """It cannot be tried here."""


def check(condition, text):
    if not condition:
        raise Failed(text)


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
            if p.poll() is None:
                p.kill()
            p.communicate()
        shutil.rmtree(self.dir, ignore_errors=True)


def parser():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("pattern", nargs="?", default="")
    return p


def main(bench, options=None):
    """Run the tests whose names have the pattern; bench: makes a bench of the options."""
    args = (options or parser()).parse_args()
    passed = failed = skipped = 0
    for fn in TESTS:
        if args.pattern not in fn.__name__:
            continue
        b = bench(args)
        try:
            fn(b)
            passed += 1
            print("ok %d - %s" % (passed + failed + skipped, fn.__name__), flush=True)
        except (Failed, subprocess.TimeoutExpired) as e:
            failed += 1
            print("not ok %d - %s" % (passed + failed + skipped, fn.__name__))
            print("#   " + str(e).replace("\n", "\n#   "), flush=True)
        except Skipped as e:
            skipped += 1
            print("ok %d - %s # SKIP %s" % (passed + failed + skipped, fn.__name__, e))
        finally:
            b.close()
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    sys.exit(failed != 0)
