#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requirements and the tests that prove them: reads docs/mission.tsv, checks it, counts by section.

A row has six columns: row, what, state, test, command, note.
    state    holds | partly | later
    test     FILE or FILE:NAME, several separated by ", ": the tests that prove the row; NAME is a test in FILE
    command  a command that demonstrates it; `meshflow` is the program, with existing commands and options
    note     what is missing; required for rows that do not hold

The evidence of a row is the strongest of its tests: one that runs in `make test`, in `make engines` or `make soak`
(the long suites), or in `make bench` (a measurement without an assertion).

Usage: mission.py PROGRAM            checks and counts; exits with 1 if there is an error
       mission.py PROGRAM --rows     the same, and each row that holds with its evidence
       mission.py PROGRAM --test     checks as TAP, and that errors in the table are detected"""
import functools
import os
import re
import shlex
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TABLE = "docs/mission.tsv"
STEPS = "tools/tour/steps.tsv"
COLUMNS = ["row", "what", "state", "test", "command", "note"]
STATES = ["holds", "partly", "later"]
SECTIONS = {  # and how many rows each has
    "S0": ("document 000: Mesh TensorFlow", 18),
    "S1": ("document 001: distributed training", 36),
    "S2": ("document 002: distributed systems", 29),
    "S3": ("document 003: heterogeneous hardware", 26),
    "S4": ("document 004: clusters", 13),
    "P": ("what others have", 34),
}
ENDS = {"|", "||", "&&", ";", "&", ")", "++", "{", "}", "then", "do", "done"}


def rows_there_must_be():
    return ["%s%s%d" % (s, "" if s == "P" else "-", i + 1) for s, (_, n) in SECTIONS.items() for i in range(n)]


def read(path):
    """Rows as lists, without comments and the header."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        lines = [line.rstrip("\n") for line in f]
    return [line.split("\t") for line in lines if line and not line.startswith("#")][1:]


class Program:
    """The commands and options of the program, from its man page and its help."""

    def __init__(self, path):
        self.path, self.known = path, {}
        page = subprocess.run([path, "help", "--man"], capture_output=True, text=True, check=True).stdout
        self.commands = set(re.findall(r"^\.B meshflow ([a-z]+(?: [a-z]+)?)$", page, re.M))

    @functools.cache
    def is_command(self, name):
        """Old spellings have help, but are not on the page; groups have help, but do nothing."""
        if name in self.commands or not re.fullmatch("[a-z]+(?: [a-z]+)?", name):
            return name in self.commands
        ran = subprocess.run([self.path, "help", *name.split()], capture_output=True, text=True, check=False)
        return ran.returncode == 0 and " COMMAND [ARGUMENT]" not in ran.stdout

    def help(self, *command):
        return subprocess.run([self.path, *command, "--help"], capture_output=True, text=True, check=True).stdout

    def options(self, command):
        if command not in self.known:
            text = self.help(*command.split())
            self.known[command] = set(re.findall(r"^  (?:-\w, )?(--[a-z][a-z-]*)", text, re.M)) | \
                set(re.findall(r"^  (-\w), ", text, re.M))
        return self.known[command]

    def command_of(self, words):
        for n in 2, 1:
            if self.is_command(" ".join(words[:n])):
                return " ".join(words[:n])
        return None

    def mistake(self, words):
        """The error in the arguments of the program, up to the end of a shell command; None: no error."""
        command = self.command_of(words)
        if not command:
            return "there is no command 'meshflow %s'" % " ".join(words[:1])
        for i, word in enumerate(words):
            if word in ENDS:
                break
            if word == "--":
                return self.mistake(words[i + 1:]) if self.command_of(words[i + 1:]) else None
            if re.match(r"--?[a-z]", word) and \
                    word.partition("=")[0].replace("_", "-") not in self.options(command):
                return "meshflow %s has no option %s" % (command, word)
        return None


def wrong_with_command(text, program):
    try:
        words = shlex.split(text.replace(";", " ; "))
    except ValueError as e:
        return str(e)
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    for i, word in enumerate(words):
        if word in ("meshflow", "scene") and (i == 0 or words[i - 1] in ENDS):
            why = program.mistake(words[i + 1:])
            if why:
                return why
        elif "meshflow " in word:  # a script of its own
            why = wrong_with_command(word, program)
            if why:
                return why
    first = words[0] if words else ""
    if first == "make":
        with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as f:
            targets = re.findall(r"^([a-z-]+):", f.read(), re.M)
        if len(words) > 1 and words[1] not in targets:
            return "there is no target '%s'" % words[1]
    elif first.endswith("/meshflow-tests"):
        return next(("no unit test matches '%s'" % w for w in words[1:] if not any(
            (t.startswith(w[1:]) if w[0] == "^" else w in t) for t in unit_tests())), None)
    elif first.startswith(("tests/", "tools/", "bench/")):
        if not os.path.exists(os.path.join(ROOT, first)):
            return "there is no %s" % first
        if first.startswith("tests/train/") and len(words) > 2 and not words[2].startswith("-") and \
                not re.search(r"^def \w*%s" % re.escape(words[2]), source(first), re.M):
            return "no test of %s matches '%s'" % (first, words[2])
    return None


@functools.cache
def unit_tests():
    out = []
    for folder in "tests/unit", "tests/ops":
        for where, _, files in os.walk(os.path.join(ROOT, folder)):
            out += [t for f in files if f.endswith(".c")
                    for t in re.findall(r"^MF_TEST\w*\((\w+)", source(os.path.join(where, f)), re.M)]
    return out


def source(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def wrong_with_test(text):
    """text is FILE or FILE:NAME"""
    path, _, name = text.partition(":")
    if not os.path.isfile(os.path.join(ROOT, path)):
        return "there is no file %s" % path
    if not name:
        return None
    patterns = {".c": r"^MF_TEST\w*\(%s[,)]", ".py": r"^def %s\(|\"%s\"", ".sh": r"\"%s\""}
    pattern = patterns.get(os.path.splitext(path)[1])
    if not pattern or not re.search(pattern.replace("%s", re.escape(name)), source(path), re.M):
        return "%s has no test '%s'" % (path, name)
    return None


EVIDENCE = ["make test", "make engines", "make soak", "make bench", "none"]  # the strongest first


@functools.cache
def gate_files():
    """Files whose tests `make test` runs."""
    listed = subprocess.run([os.path.join(ROOT, "tools/run_tests.sh"), "--list"], capture_output=True, text=True,
                            check=True, env={k: v for k, v in os.environ.items() if k != "T"}).stdout
    return {command.split()[0] for _, command in (line.split("\t") for line in listed.splitlines())}


def evidence_of_test(text):
    """The make target that runs the test FILE or FILE:NAME."""
    path, _, name = text.partition(":")
    if path.startswith("bench/"):
        return "make bench"
    if path.startswith(("tests/unit/", "tests/ops/", "tests/tf/", "tests/cli/")):
        return "make test"
    if path.startswith("tests/engines/") or path.startswith("tests/mesh/"):
        return "make engines"
    if path not in gate_files():
        return "make soak" if path.startswith("tests/") else "none"
    if re.search(r"^@host_test.*\n(?:@.*\n)*def %s\(" % re.escape(name), source(path), re.M):
        return "make engines"
    return "make test"


def evidence_of(row):
    return min((evidence_of_test(t) for t in row[3].split(", ")), key=EVIDENCE.index, default="none")


def wrong_with_row(row, program):
    if len(row) != len(COLUMNS):
        return ["%d columns instead of %d" % (len(row), len(COLUMNS))]
    _, what, state, test, command, note = row
    out = []
    if not what:
        out.append("does not say what")
    if state not in STATES:
        out.append("state '%s' is none of %s" % (state, ", ".join(STATES)))
    if state != "later" and not (test and command):
        out.append("%s, but names no test or no command" % state)
    if state != "holds" and not note:
        out.append("%s, but does not say what is missing" % state)
    out += [wrong_with_test(t) for t in test.split(", ")] if test else []
    if state == "holds" and test and evidence_of(row) == "none":
        out.append("holds, but no test shows it")
    out += [wrong_with_command(command, program)] if command else []
    return [w for w in out if w]


def wrong_with(rows, program):
    out, seen, want = [], set(), rows_there_must_be()
    for row in rows:
        if row[0] not in want:
            out.append("%s: there is no such row" % row[0])
        if row[0] in seen:
            out.append("%s: is there twice" % row[0])
        seen.add(row[0])
        out += ["%s: %s" % (row[0], w) for w in wrong_with_row(row, program)]
    return out + ["%s: is missing" % r for r in want if r not in seen]


def wrong_with_steps(steps, program):
    return ["%s: %s" % (s[0], w) for s in steps for w in [wrong_with_command(s[-1], program)] if w]


def count(rows):
    print("%-44s %6s %6s %6s %6s" % ("section", "rows", *STATES))
    total = dict.fromkeys(STATES, 0)
    for key, (title, n) in SECTIONS.items():
        states = [r[2] for r in rows if re.fullmatch(r"%s-?\d+" % key, r[0])]
        print("%-44s %6d %6d %6d %6d" % ("%s  %s" % (key, title), n, *[states.count(s) for s in STATES]))
        for s in STATES:
            total[s] += states.count(s)
    print("%d of %d rows hold, %d in part, %d come later" %
          (total["holds"], len(rows), total["partly"], total["later"]))


def count_evidence(rows, each):
    held = [(evidence_of(r), r) for r in rows if r[2] == "holds"]
    print("of the rows that hold: " + ", ".join("%d by %s" % (sum(e == kind for e, _ in held), kind)
                                                for kind in EVIDENCE[:-1]))
    for e, r in held if each else []:
        print("%-6s %-13s %s" % (r[0], e, r[1]))


def selftest(rows, program):
    """Changes of the table that must be found: (name, column, value, words of the complaint)."""
    def changed(i, value):
        bad = [list(r) for r in rows]
        first = next(r for r in bad if r[2] == "holds")
        first[i] = value
        return bad

    cases = [
        ("a test that does not exist", changed(3, "tests/train/run.py:no_such_test"), "has no test 'no_such_test'"),
        ("a unit test that does not exist", changed(3, "tests/unit/base/base.c:no_such_test"), "has no test"),
        ("a file that does not exist", changed(3, "tests/no_such.py"), "there is no file"),
        ("a command that does not exist", changed(4, "meshflow dance"), "no command 'meshflow dance'"),
        ("an option that does not exist", changed(4, "meshflow train --model mlp --dance"), "no option --dance"),
        ("an option behind a launcher's", changed(4, "meshflow launch --workers 2 -- train --dance 3"),
         "no option --dance"),
        ("a pattern that matches no test", changed(4, "tests/train/run.py build/meshflow nothing_like_it"),
         "matches 'nothing_like_it'"),
        ("a pattern that matches no unit test", changed(4, "build/release/meshflow-tests nothing_like_it"),
         "no unit test matches"),
        ("a target that does not exist", changed(4, "make dance"), "no target 'dance'"),
        ("a state that is none", changed(2, "surely"), "state 'surely'"),
        ("a part without a word of what is missing", changed(2, "partly"), "does not say what is missing"),
        ("a row that holds without a test", changed(3, ""), "names no test"),
        ("a row that holds by a file that is no test", changed(3, "examples/fashion.c"), "no test shows it"),
        ("a row that is there twice", rows + [rows[0]], "is there twice"),
        ("a row that is missing", rows[1:], "is missing"),
        ("a row of another table", rows + [["X1"] + rows[0][1:]], "no such row"),
        ("a row with too few columns", [rows[0][:4]] + rows[1:], "4 columns instead of 6"),
    ]
    return [("it finds " + name, any(words in w for w in wrong_with(bad, program))) for name, bad, words in cases]


def main():
    program = Program(sys.argv[1])
    rows, steps = read(TABLE), read(STEPS)
    wrong, lost = wrong_with(rows, program), wrong_with_steps(steps, program)
    if "--test" not in sys.argv:
        print("\n".join(wrong + lost), file=sys.stderr, end="\n" if wrong + lost else "")
        count(rows)
        count_evidence(rows, "--rows" in sys.argv)
        return 1 if wrong or lost else 0
    verdicts = [("%s names tests and commands that there are" % TABLE, not wrong),
                ("%s names commands that there are" % STEPS, not lost)] + selftest(rows, program)
    for i, (name, good) in enumerate(verdicts):
        print("%s %d - %s" % ("ok" if good else "not ok", i + 1, name))
    for w in wrong + lost:
        print("#   " + w)
    failed = sum(not good for _, good in verdicts)
    print("%d passed, %d failed, 0 skipped" % (len(verdicts) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
