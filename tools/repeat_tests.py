#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the suites of `make test` many times and lists every test that did not always pass.

Usage: repeat_tests.py [-n N] [--again] [--suites FILE] [PATTERN]

Without PATTERN the unit tests run N times (default: 20) and every other suite N/4 times. PATTERN chooses
suites by a part of their name, or else tests by a part of theirs; all that it chooses runs N times.
Every second round runs beside two busy loops. Nothing is built: run `make test` first.

Each result is a line of build/repeat/tally.tsv before the next suite starts, so an interrupted run keeps
its results and the next one continues it. A new build of the program starts a new tally; so does --again.
Output of suites that failed is in build/repeat/. The exit code is 1 when a test failed once."""
import argparse
import collections
import glob
import hashlib
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FOLDER = "build/repeat"
TALLY = FOLDER + "/tally.tsv"
UNIT = "unit tests"
BUILDS = {"layers", "build", "clang"}  # deterministic
BUSY_LOOPS = 2
BUSY_LOOP = "while kill -0 $PPID; do i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; done"  # ends with this program

Result = collections.namedtuple("Result", "suite round test verdict")


def listed(path):
    """Suites as {name: command}."""
    if path:
        with open(path, encoding="utf-8") as f:
            text = f.read()
    else:
        text = subprocess.run(["tools/run_tests.sh", "--list"], capture_output=True, text=True, check=True,
                              env={k: v for k, v in os.environ.items() if k != "T"}).stdout
    suites = dict(line.split("\t") for line in text.splitlines())
    return {name: command for name, command in suites.items() if name not in BUILDS}


def has_test(command, pattern):
    """Does the suite's own file define such a test?"""
    path = command.split()[0]
    if not path.endswith(".py"):
        return False
    with open(path, encoding="utf-8") as f:
        return re.search(r"^def \w*%s" % re.escape(pattern), f.read(), re.M) is not None


def chosen(suites, pattern, n):
    """(name, command, rounds) of the suites to run."""
    if not pattern:
        return [(s, c, n if s == UNIT else max(1, n // 4)) for s, c in suites.items()]
    by_name = [(s, c, n) for s, c in suites.items() if pattern.lower() in s.lower()]
    if by_name:
        return by_name
    by_test = [(s, "%s %s" % (c, pattern), n) for s, c in suites.items() if has_test(c, pattern)]
    unit = suites.get(UNIT)
    if unit and subprocess.run([unit, "--list", pattern], capture_output=True).stdout.strip():
        by_test.append((UNIT, "%s %s" % (unit, pattern), n))
    if not by_test:
        sys.exit("no suite and no test matches '%s'" % pattern)
    return by_test


def build_id(pattern):
    """Identifies the results: the tested programs and the selected tests."""
    digest = hashlib.sha256((pattern or "").encode())
    for path in ("build/release/meshflow", "build/release/meshflow-tests"):
        if os.path.exists(path):
            with open(path, "rb") as f:
                digest.update(hashlib.file_digest(f, "sha256").digest() if hasattr(hashlib, "file_digest")
                              else hashlib.sha256(f.read()).digest())
    return digest.hexdigest()[:16]


def read_tally(head):
    """Results so far; none if the tally belongs to another build."""
    try:
        with open(TALLY, encoding="utf-8") as f:
            lines = f.read().split("\n")[:-1]  # a line without its end was interrupted
    except FileNotFoundError:
        return None
    if not lines or lines[0] != head:
        return None
    rows = [line.split("\t") for line in lines[1:]]
    return [Result(r[0], int(r[1]), r[2], r[3]) for r in rows if len(r) == 4]


def begin_tally(head):
    for path in glob.glob(FOLDER + "/*"):
        os.remove(path)
    with open(TALLY, "w", encoding="utf-8") as f:
        f.write(head + "\n")
    return []


def write_results(results):
    with open(TALLY, "a", encoding="utf-8") as f:
        f.write("".join("%s\t%d\t%s\t%s\n" % r for r in results))
        f.flush()
        os.fsync(f.fileno())


def parse(suite, number, output, code):
    """The results of one run of a suite, by its TAP lines."""
    results = []
    for verdict, test in re.findall(r"^(ok|not ok) \d+ - (.*)$", output, re.M):
        name = test.split(" # SKIP")[0].replace("\t", " ")
        results.append(Result(suite, number, name, "skipped" if " # SKIP" in test else
                              "passed" if verdict == "ok" else "failed"))
    counts = re.search(r"^\d+ passed, (\d+) failed, \d+ skipped$", output.strip().rsplit("\n", 1)[-1])
    if not counts or (code != 0 and all(r.verdict != "failed" for r in results)):
        results.append(Result(suite, number, "(the suite ended with status %d)" % code, "failed"))
    return results


def run_once(suite, command, number):
    loops = [subprocess.Popen(["sh", "-c", BUSY_LOOP]) for _ in range(BUSY_LOOPS * (number % 2 == 0))]
    try:
        r = subprocess.run(command, shell=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    finally:
        for p in loops:
            p.kill()
            p.wait()
    results = parse(suite, number, r.stdout, r.returncode)
    write_results(results)
    failed = [x.test for x in results if x.verdict == "failed"]
    if failed:
        with open("%s/%s-%d.log" % (FOLDER, suite.replace(" ", "-"), number), "w", encoding="utf-8") as f:
            f.write(r.stdout)
    print("# round %d%s, %s: %d passed, %d failed%s" %
          (number, " beside busy loops" if loops else "", suite, sum(x.verdict == "passed" for x in results),
           len(failed), "".join("\n#   " + t for t in failed)), flush=True)
    return results


def run_all(plan, results):
    """Round by round, so that an interrupted run has covered all suites about equally often."""
    done = {(r.suite, r.round) for r in results}
    for number in range(1, max(n for _, _, n in plan) + 1):
        for suite, command, n in plan:
            if number <= n and (suite, number) not in done:
                results += run_once(suite, command, number)


def summarise(results):
    """Lists the tests that did not always pass; returns how many."""
    runs, failures = collections.Counter(), collections.defaultdict(list)
    for r in results:
        runs[r.suite, r.test] += r.verdict != "skipped"
        if r.verdict == "failed":
            failures[r.suite, r.test].append(r.round)
    for (suite, test), rounds in sorted(failures.items()):
        print("not ok - %s: %s: failed %d of %d times, in rounds %s" %
              (suite, test, len(rounds), runs[suite, test], ", ".join(map(str, rounds))))
    always = sum(1 for key, n in runs.items() if n > 0 and key not in failures)
    print("%d runs of %d tests" % (sum(runs.values()), len(runs)))
    print("%d passed, %d failed, 0 skipped" % (always, len(failures)), flush=True)
    return len(failures)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=20)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--suites")
    parser.add_argument("pattern", nargs="?", default="")
    args = parser.parse_args()
    if not args.suites:
        os.chdir(ROOT)
        if not os.path.exists("build/release/meshflow-tests"):
            sys.exit("there is no build/release/meshflow-tests: run `make test` first")
    os.makedirs(FOLDER, exist_ok=True)
    head = "# " + build_id(args.pattern)
    results = None if args.again else read_tally(head)
    if results:
        print("# continues %s: %d results so far" % (TALLY, len(results)))
    results = begin_tally(head) if results is None else results
    try:
        run_all(chosen(listed(args.suites), args.pattern, args.n), results)
    except KeyboardInterrupt:
        print("# interrupted; the same command continues")
        results = read_tally(head)
    return 1 if summarise(results) else 0


if __name__ == "__main__":
    sys.exit(main())
