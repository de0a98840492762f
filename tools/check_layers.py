#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the direction of every include in src/.

A file in src/FOLDER/ may include "folder/x.h" of its own folder and of folders earlier in ORDER.
No file outside includes a header of a folder in CLOSED. <meshflow/...> is always fine.

Usage: check_layers.py [ROOT]
"""
import os
import re
import sys
import tempfile

ORDER = [
    "base", "observe", "device", "tensor", "proto", "formats", "graph", "net", "rpc", "collective", "compiler", "runtime",
    "tf_client", "spmd", "ops", "data", "models", "train", "compress", "planner", "cluster", "dist", "dispatch", "tf_server",
    "serving", "report", "jobqueue", "supervisor", "cli", "plugins",
]
CLOSED = {"ops"}  # reached through the generated table only

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def why_not(folder, name):
    """Why a file in src/`folder` may not include "`name`"; None if it may."""
    target = name.split("/")[0] if "/" in name else None
    if target is None:
        return 'give its folder: "folder/%s"' % name
    if ".." in name.split("/"):
        return "no .. in an include"
    if target == folder:
        return None
    if target not in ORDER:
        return "%s/ is no layer" % target
    if target in CLOSED:
        return "nobody includes %s/" % target
    if ORDER.index(target) > ORDER.index(folder):
        return "%s/ comes after %s/" % (target, folder)
    return None


def check_file(path, folder):
    with open(path, encoding="utf-8", errors="replace") as source:
        for number, line in enumerate(source, 1):
            match = INCLUDE.match(line)
            reason = why_not(folder, match.group(1)) if match else None
            if reason:
                yield '%s:%d: "%s": %s' % (path, number, match.group(1), reason)


def check_folder(top, folder):
    """Returns the number of files and the complaints."""
    count, complaints = 0, []
    for where, _, names in sorted(os.walk(os.path.join(top, folder))):
        for name in sorted(names):
            if name.endswith((".c", ".h", ".cu")):
                count += 1
                complaints += check_file(os.path.join(where, name), folder)
    return count, complaints


def check_tree(top):
    """Yields (name of the test, complaints) for each folder in src/."""
    for folder in sorted(os.listdir(top)) if os.path.isdir(top) else []:
        if not os.path.isdir(os.path.join(top, folder)):
            yield folder, ["%s/%s: no file belongs directly in src/" % (top, folder)]
        elif folder not in ORDER:
            yield folder, ["%s/%s: is no layer" % (top, folder)]
        else:
            count, complaints = check_folder(top, folder)
            yield "src/%s includes downwards only (%d files)" % (folder, count), complaints


def goes_red():
    """A tree with one include of each wrong kind: complaints if one is not seen."""
    wrong = ["graph/node.h", "ops/x.h", "nowhere/x.h", "x.h", "base/../graph/node.h"]
    right = ["base/status.h", "tensor/shape.h"]
    with tempfile.TemporaryDirectory() as top:
        os.mkdir(os.path.join(top, "tensor"))
        with open(os.path.join(top, "tensor", "x.c"), "w", encoding="utf-8") as source:
            source.writelines('#include "%s"\n' % name for name in wrong + right)
        found = check_folder(top, "tensor")[1]
    return [] if len(found) == len(wrong) else ["expected %d, saw %s" % (len(wrong), found)]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    os.chdir(root)
    passed = failed = 0
    for name, complaints in [("layer check sees wrong includes", goes_red())] + list(check_tree("src")):
        print("%s %d - %s" % ("not ok" if complaints else "ok", passed + failed + 1, name))
        for complaint in complaints:
            print("#   " + complaint)
        failed += bool(complaints)
        passed += not complaints
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
