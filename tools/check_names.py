#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a name in src/ has one meaning, so that it can be searched for.

1. No two files have one base name.
2. No struct, union or enum tag is defined twice, but for HANDLES.
3. No static function has the name of another one.
4. Every folder directly in src/ has a README.md.

Usage: check_names.py [ROOT]
"""
import collections
import os
import re
import sys
import tempfile

# Opaque handles with one implementation per RPC transport.
HANDLES = {"mf_rpc_channel", "mf_rpc_server"}

# Tokens in the place of a name: attributes, and parameters of macros in template headers.
NOT_NAMES = {"__attribute__", "fn"}

COMMENT = re.compile(r"/\*.*?\*/", re.S)
TAG = re.compile(r"^(?:typedef )?(?:static )?(?:const )?(?:struct|union|enum) (\w+)\s*\{", re.M)
STATIC = re.compile(r"^static\s+(?:inline\s+|const\s+|_Noreturn\s+|MF_\w+\s+)*[A-Za-z_][\w ]*?[ *]+(\w+)\((?=[^;{]*\{)", re.M)


def sources(top):
    for where, _, names in sorted(os.walk(top)):
        yield from (os.path.join(where, n) for n in sorted(names) if n.endswith((".c", ".h")))


def read(path):
    with open(path, encoding="utf-8", errors="replace") as source:
        return COMMENT.sub("", source.read())


def twice(places, what, allowed=()):
    """Complaints about names with several definitions."""
    for name, where in sorted(places.items()):
        if len(where) > 1 and name not in allowed:
            yield "%s %s: %s" % (what, name, ", ".join(sorted(where)))


def check_tree(top):
    """Yields (name of the test, complaints)."""
    base, tags, statics = (collections.defaultdict(set) for _ in range(3))
    for path in sources(top):
        text = read(path)
        base[os.path.basename(path)].add(path)
        for name in TAG.findall(text):
            tags[name].add(path)
        for name in STATIC.findall(text):
            statics[name].add(path)
    yield "a file name is used once", list(twice(base, "file name"))
    yield "a tag is defined once", list(twice(tags, "tag", HANDLES))
    yield "a static function has a name of its own", list(twice(statics, "static function", NOT_NAMES))
    yield "every folder of src/ has a README.md", [
        "%s has no README.md" % os.path.join(top, d) for d in sorted(os.listdir(top))
        if os.path.isdir(os.path.join(top, d)) and not os.path.exists(os.path.join(top, d, "README.md"))]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def goes_red():
    """A tree with one violation of each kind: complaints if one is not seen."""
    with tempfile.TemporaryDirectory() as top:
        for folder in "a", "b":
            write(os.path.join(top, folder, "same.c"),
                  "struct tag {\n    int x;\n};\n\nstatic int *take(int a,\n                 int b)\n{\n    return 0;\n}\n")
        seen = {name for name, complaints in check_tree(top) if complaints}
        return ["'%s' does not see a violation" % name for name, _ in check_tree(top) if name not in seen]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    tests = [("the check sees every kind of violation", goes_red()), *check_tree(os.path.join(root, "src"))]
    failed = 0
    for number, (name, complaints) in enumerate(tests, 1):
        print("%s %d - %s" % ("not ok" if complaints else "ok", number, name))
        for line in complaints:
            print("#   " + line)
        failed += bool(complaints)
    print("%d passed, %d failed, 0 skipped" % (len(tests) - failed, failed))
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
