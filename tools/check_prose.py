#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks prose for banned phrases: *.md, comments and string literals of src/ and include/, comments of C files of
tests/ and fuzz/, names of tests.

PHRASES lists each phrase with its replacement; EXCEPTIONS lists where a phrase may stay, with the reason.

Usage: check_prose.py                  TAP
       check_prose.py --list [PATH]... every violation below these paths (default: all), with its replacement
"""
import collections
import fnmatch
import os
import re
import subprocess
import sys
import tempfile

# A space matches any white space, an underscore of a name, and the end of a line of a comment.
PHRASES = [
    # people instead of a subject
    (r"whoever|whomever", "name the subject: \"the worker that\", \"the process that\""),
    (r"somebody|someone", "name the subject: \"another task\", \"a client\""),
    (r"nobody|no one", "name the subject: \"no task\", \"no worker\""),
    (r"everybody|everyone", "name the subject: \"every worker\", \"all tasks\""),
    (r"those (?:who|that)|ones? (?:who|that)", "name the noun: \"tasks that\", \"a file that\""),
    # defaults and conditions
    (r"unless (?:told|said)(?: otherwise)?", "\"default: VALUE\""),
    (r"every so many", "\"every N\""),
    (r"told", "\"configured\", \"notified\", \"requested\""),
    # states
    (r"(?:stands?|standing|stood) still", "\"stalled\", \"does not advance\""),
    (r"(?:go|goes|going|went|gone) on(?! (?:the|a|an|its|top|disk|standard)\b)", "\"continues\""),
    (r"(?:comes?|came) again", "\"rejoins\", \"is restarted\""),
    (r"(?:leaves?|leaving|left) out", "\"excluded\", \"skipped\", \"omitted\""),
    (r"(?:do|does|did|doing|done) without", "\"does not need\", \"runs without\""),
    # values
    (r"(?:is|are|was|were) no numbers?|(?:of|without|be|become) no numbers?|without numbers|numbers that are none",
     "\"NaN or Inf\""),
    (r"made small", "\"minimized\""),
    # verbs of other trades
    (r"mend(?:s|ed|ing)?", "\"fixed\""),
    (r"deal(?:s|t|ing)? out", "\"assigned\", \"distributed\""),
    (r"sittings?", "\"run\", \"session\""),
    (r"anew", "\"again\""),
    (r"for want of", "\"because there is no\""),
    (r"whole or not at all", "\"atomic\""),
    # metaphors
    (r"(?:comes?|came|brings?|bringing|brought) together", "\"all-gather\", \"is gathered\", \"meets at a barrier\""),
    (r"(?:stands?|standing|stood) for (?:itself|themselves)", "name what it means"),
    (r"(?:has|have|had) come", "\"has arrived\", \"has joined\""),
    (r"(?:is|are|was|were) gone", "\"has exited\", \"is lost\", \"no longer exists\""),
    (r"lets? go|letting go", "\"releases\""),
    (r"(?:takes?|taking|took|taken) part", "\"participates\", \"is a member\""),
    (r"(?:looks?|looking|looked) at", "\"reads\", \"checks\", \"examines\""),
    (r"by sight", "name the property"),
    (r"in vain", "\"without success\""),
    (r"at hand", "\"available\", \"local\""),
    (r"for good", "\"permanently\""),
    (r"the other way round", "\"in reverse\", \"vice versa\""),
]

# (files, phrase or None for all, reason)
EXCEPTIONS = [
    ("src/dist/strategy_settings.c", r"everybody|everyone", "the old name of a setting"),
    ("CHANGELOG.md", r"everybody|everyone", "old names of settings"),
    ("CHANGELOG.md", r"(?:looks?|looking|looked) at", "the old name of a JSON field"),
    ("CHANGELOG.md", r"(?:leaves?|leaving|left) out", "the old name of a JSON field"),
    ("docs/guides/tour*.md", None, "quotes documents and output of the steps"),
    ("docs/*.zh.md", None, "Chinese"),
    ("docs/*/*.zh.md", None, "Chinese"),
]

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*|\'(?:[^\'\\\n]|\\.)+\'', re.S)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*", re.M)
C_TEST = re.compile(r"\bMF_TEST\w*\(\s*(\w+)")
PY_NAME = re.compile(r"^ *def (\w+)", re.M)
SH_NAME = re.compile(r"^\s*(?:ok|fails|wrong|check|one|suite|verdict|(?:expect|launch) \d+) \"([^\"\n]+)\"", re.M)


def pattern(phrase):
    return re.compile(r"(?<![A-Za-z])(?:%s)(?![A-Za-z])" % phrase.replace(" (?!", "\0").replace(" ", r"[\s_]+")
                      .replace("\0", r"[\s_]+(?!"), re.I)


COMPILED = [(pattern(phrase), phrase, instead) for phrase, instead in PHRASES]


def c_prose(text, strings=True):
    """(offset, text) of comments and, if requested, of string literals. Stars and inner quotes become spaces, which
    keeps the offsets."""
    text = INCLUDE.sub(lambda m: " " * len(m.group(0)), text)
    for m in TOKEN.finditer(text):
        token = m.group(0)
        if token.startswith("/"):
            yield m.start(), re.sub(r"(?m)^([ \t]*)\*", r"\1 ", token)
        elif strings and token.startswith('"'):
            token = re.sub(r"\\n", "  ", token)
            # "a" "b" is one text; what is kept has as many characters as before
            yield m.start(), re.sub(r'"(\s*)"', r" \1 ", token) if len(token) > 2 else token


def names(expression, text):
    for m in expression.finditer(text):
        yield m.start(1), m.group(1)


def prose(path, text):
    """(offset, text) of everything that is checked in a file."""
    if path.endswith(".md"):
        yield 0, text
    elif path.startswith(("src/", "include/")) and path.endswith((".c", ".h")):
        yield from c_prose(text)
    elif path.startswith(("tests/", "fuzz/")):
        if path.endswith((".c", ".h")):
            yield from c_prose(text, strings=False)
        expression = {".c": C_TEST, ".py": PY_NAME, ".sh": SH_NAME}.get(os.path.splitext(path)[1])
        if expression:
            yield from names(expression, text)


def excepted(path, phrase):
    return any(fnmatch.fnmatch(path, files) and which in (None, phrase) for files, which, _ in EXCEPTIONS)


def violations(path, text):
    """(line, the words, what to write instead), in the order of lines."""
    found = []
    for offset, part in prose(path, text):
        taken = []
        for expression, phrase, instead in COMPILED:
            if excepted(path, phrase):
                continue
            for m in expression.finditer(part):
                if any(m.start() < end and start < m.end() for start, end in taken):
                    continue  # "unless told" is not also "told"
                taken.append(m.span())
                line = text.count("\n", 0, offset + m.start()) + 1
                found.append((line, " ".join(re.split(r"[\s_]+", m.group(0))), instead))
    return sorted(found)


def files(root):
    if os.path.exists(os.path.join(root, ".git")):
        out = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             capture_output=True, text=True, check=True).stdout
        listed = out.split("\0")
    else:
        listed = [os.path.relpath(os.path.join(where, n), root) for where, _, found in os.walk(root) for n in found]
    return sorted(f for f in set(listed) if f.endswith((".md", ".c", ".h", ".py", ".sh"))
                  and os.path.exists(os.path.join(root, f)))


def check_files(root):
    """Violations by file; files without any are not in it."""
    found = {}
    for path in files(root):
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
            complaints = violations(path, f.read())
        if complaints:
            found[path] = complaints
    return found


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


PLANTED = {  # file, text, lines with a violation
    "a page": ("docs/a.md", "# A\n\nDefault: 3; it waits\nunless\ntold.\n", [4]),
    "a comment": ("src/a.c", "int nobody_is_seen_here;\n/* one\n * line, nobody */\n", [3]),
    "a phrase across lines of a comment": ("src/b.c", "/* what goes\n * on here */\n", [1]),
    "a string": ("include/a.h", '#define A "no numbers; NaN" \\\n    "this is left " "out"\n', [2]),
    "a phrase across lines of a string": ("src/c.c", 'char *s = "it stands "\n          "still";\n', [1]),
    "a test in C": ("tests/unit/a.c", "MF_TEST(a_worker_that_stands_still)\n{\n    char *s = \"nobody\";\n}\n", [1]),
    "a comment of a test": ("fuzz/a.c", "/* one\n * line, nobody */\n", [2]),
    "a test in Python": ("tests/a.py", "# nobody\ndef a_worker_comes_again():\n    pass\n", [2]),
    "a test of the shell": ("tests/a.sh", "# nobody\nok \"nobody waits\" -- x\n", [2]),
    "an exception": ("docs/guides/tour.md", "nobody\n", []),
    "what only resembles a phrase": (
        "docs/b.md", "it goes on the wire; renewed; bones that; no numbers yet; amendment\n", []),
}


def self_test():
    """Every planted violation is found, at its line, and nothing else."""
    wrong = []
    for name, (path, text, lines) in PLANTED.items():
        with tempfile.TemporaryDirectory() as root:
            write(os.path.join(root, path), text)
            seen = [line for line, _, _ in check_files(root).get(path, [])]
            if seen != lines:
                wrong.append("%s: violations in lines %s, found in %s" % (name, lines, seen))
    return wrong


def list_violations(root, paths):
    total = collections.Counter()
    for path, complaints in check_files(root).items():
        if not paths or any(path == p or path.startswith(p.rstrip("/") + "/") for p in paths):
            for line, words, instead in complaints:
                print("%s:%d: '%s': %s" % (path, line, words, instead))
                total[words.lower()] += 1
    print("%d banned phrases" % sum(total.values()))


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    command, paths = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    if command == "--list":
        return list_violations(root, paths)
    if command:
        sys.exit(__doc__.strip())
    complaints = ["%s:%d: '%s': %s" % (path, *v) for path, found in sorted(check_files(root).items()) for v in found]
    tests = [("the check sees every kind of violation", self_test()), ("no file has a banned phrase", complaints)]
    failed = 0
    for number, (name, lines) in enumerate(tests, 1):
        print("%s %d - %s" % ("not ok" if lines else "ok", number, name))
        for line in lines:
            print("#   " + line)
        failed += bool(lines)
    print("%d passed, %d failed, 0 skipped" % (len(tests) - failed, failed))
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
