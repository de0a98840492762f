#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tour: runs one command for each section of the five documents, and shows its output.

Usage: run.py PROGRAM [PATTERN...]     steps whose name, "document N" or section contains a pattern (default: all)

Reads steps.tsv (name, document, section, sentence, command). Commands run in bash, in build/tour, with `meshflow`,
`scene`, `cluster`, `draw` and `serving` in PATH. Their files remain there. Each step prints the section, the sentence,
the command and its output. The last line is `N passed, N failed, N skipped`; a command whose exit status is 77 is skipped."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
FOLDER = os.path.join(ROOT, "build", "tour")
TOOLS = ["scene", "cluster", "draw", "serving"]
SECONDS = 600  # against hangs


def steps():
    with open(os.path.join(HERE, "steps.tsv"), encoding="utf-8") as f:
        lines = [line.rstrip("\n").split("\t") for line in f if line.strip() and not line.startswith("#")]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def chosen(step, patterns):
    words = "%s document %s %s" % (step["name"], step["document"], step["section"])
    return not patterns or any(p in words for p in patterns)


def environment(program, boards):
    tools = os.path.join(FOLDER, "bin")
    os.makedirs(tools, exist_ok=True)
    for name, target in [("meshflow", program)] + [(n, os.path.join(HERE, n)) for n in TOOLS]:
        link = os.path.join(tools, name)
        if os.path.lexists(link):
            os.remove(link)
        os.symlink(os.path.realpath(target), link)
    more = dict(PATH=tools + ":" + os.environ["PATH"], MESHFLOW_RUN_DIR=boards, ROOT=ROOT)
    return dict(os.environ, **more)


def run(command, env):
    """Shows the output immediately. Returns the exit status."""
    p = subprocess.Popen(["bash", "-euo", "pipefail", "-c", command], cwd=FOLDER, env=env, start_new_session=True,
                         stdin=subprocess.DEVNULL, stdout=sys.stdout.fileno(), stderr=subprocess.STDOUT)
    try:
        return p.wait(SECONDS)
    except subprocess.TimeoutExpired:
        print("the command has not ended after %d s" % SECONDS)
        return 1
    finally:
        if p.poll() is None: # also when the tour itself is stopped
            os.killpg(p.pid, signal.SIGTERM)
            p.wait()


def main():
    program, patterns = sys.argv[1], sys.argv[2:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if not patterns:
        shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER, exist_ok=True)
    counts = dict(passed=0, failed=0, skipped=0)
    n, began, lost = 0, time.monotonic(), []
    with tempfile.TemporaryDirectory() as boards:
        env = environment(program, boards)
        for step in (s for s in steps() if chosen(s, patterns)):
            n += 1
            print("\n=== document %(document)s, %(section)s\n%(sentence)s\n$ %(command)s\n" % step, flush=True)
            start = time.monotonic()
            status = run(step["command"], env)
            verdict = {0: "passed", 77: "skipped"}.get(status, "failed")
            counts[verdict] += 1
            lost += [step["name"]] if verdict == "failed" else []
            print("%s %d - %s%s (%.1f s)" % ("not ok" if verdict == "failed" else "ok", n, step["name"],
                                             " # SKIP" if verdict == "skipped" else "", time.monotonic() - start),
                  flush=True)
    if lost:
        print("failed: " + ", ".join(lost))
    print("\n%d steps in %.0f s; figures and other files: %s" %
          (n, time.monotonic() - began, os.path.relpath(FOLDER, ROOT)))
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] or not n else 0


if __name__ == "__main__":
    sys.exit(main())
