# SPDX-License-Identifier: Apache-2.0
"""The documents' programs (documents/), once as they are, with servers of TensorFlow's, and once with one import
changed, with ours: they print the same."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "documents")
THEIRS, OURS = "from tensorflow.compat.v1.train import Server\n", "from meshflow import Server\n"
SECONDS = 120


def free_address():
    import socket
    with socket.create_server(("127.0.0.1", 0)) as s:
        return "127.0.0.1:%d" % s.getsockname()[1]


def program(name, ours, folder):
    with open(os.path.join(FOLDER, name + ".py"), encoding="utf-8") as f:
        text = f.read()
    if text.count(THEIRS) != 1:
        raise ValueError("%s imports its server otherwise" % name)
    path = os.path.join(folder, "%s_%s.py" % (name, "ours" if ours else "theirs"))
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace(THEIRS, OURS) if ours else text)
    return path


def start(path, *args):
    package = os.path.join(HERE, "..", "..", "python")
    return subprocess.Popen([sys.executable, path, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=dict(os.environ, PYTHONPATH=package))


def said(process):
    """What it printed as JSON, line by line."""
    out, err = process.communicate(timeout=SECONDS)
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return lines if process.returncode == 0 and lines else "ended with %s: %s" % (process.returncode, err[-600:])


def alone(path):
    return said(start(path, free_address()))


def machines(path):
    cluster = {"ps": [free_address(), free_address()], "worker": [free_address(), free_address()]}
    tasks = [start(path, json.dumps(cluster), job, str(i)) for job, i in (("ps", 0), ("ps", 1), ("worker", 1))]
    try:
        for t in tasks:
            t.stdout.readline()
        return said(start(path, json.dumps(cluster), "worker", "0"))
    finally:
        for t in tasks:
            t.kill()
            t.communicate()


WAYS = {"004_standalone": alone, "004_multi_machine": machines}
NOT_YET = {"004_multi_machine"}  # needs servers that place nodes on other tasks
NAMES = [n for n in WAYS if n not in NOT_YET]


def differ(ours, theirs, path=""):
    """Numbers to six digits."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and set(ours) == set(theirs):
        return [d for k in theirs for d in differ(ours[k], theirs[k], "%s.%s" % (path, k))]
    if isinstance(theirs, list) and isinstance(ours, list) and len(ours) == len(theirs):
        return [d for i, (a, b) in enumerate(zip(ours, theirs)) for d in differ(a, b, "%s[%d]" % (path, i))]
    if isinstance(theirs, float) and isinstance(ours, float):
        return [] if abs(ours - theirs) <= 1e-6 * max(1.0, abs(theirs)) else ["%s: ours %r, theirs %r" % (path, ours, theirs)]
    return [] if ours == theirs else ["%s: ours %r, theirs %r" % (path, ours, theirs)]


def check(name):
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = (WAYS[name](program(name, o, folder)) for o in (False, True))
    return dict(failures=differ(ours, theirs) if isinstance(theirs, list) else ["theirs: " + theirs])
