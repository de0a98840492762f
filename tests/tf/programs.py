# SPDX-License-Identifier: Apache-2.0
"""Client programs (corpus/) with a tf.compat.v1.Session that is Meshflow's, and the answers TensorFlow's
own servers gave them (corpus/expected/)."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = os.path.join(HERE, "corpus")
KINDS = {"local1": [("local", 1)], "worker1": [("worker", 1)], "w2": [("worker", 2)],
         "ps1w1": [("ps", 1), ("worker", 1)], "ps1w2": [("ps", 1), ("worker", 2)],
         "ps2w2": [("ps", 2), ("worker", 2)]}
SECONDS = 180


def applicable():
    return sorted(os.path.basename(p)[:-3] for p in glob.glob(os.path.join(CORPUS, "[0-9]*.py")))


# Programs of the first fifty that need a server, and for what.
NOT_APPLICABLE = {
}


def not_applicable():
    return sorted(NOT_APPLICABLE.items())


def differences(want, got, tol, path=""):
    if isinstance(want, dict) and isinstance(got, dict):
        bad = [] if set(want) == set(got) else [
            "%s: keys %s" % (path, sorted(set(want) ^ set(got)))]
        return bad + [d for k in want if k in got
                      for d in differences(want[k], got[k], tol, path + "." + k)]
    if isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            return ["%s: length %d, expected %d" % (path, len(got), len(want))]
        return [d for i, (a, b) in enumerate(zip(want, got))
                for d in differences(a, b, tol, "%s[%d]" % (path, i))]
    numbers = isinstance(want, (int, float)) and isinstance(got, (int, float))
    if not numbers or isinstance(want, bool) or isinstance(got, bool):
        return [] if want == got else ["%s: %r, expected %r" % (path, got, want)]
    return [] if abs(want - got) <= tol + tol * 10 * abs(want) else [
        "%s: %s, expected %s" % (path, got, want)]


def run(name):
    """An outcome like the workers'."""
    path = os.path.join(CORPUS, name + ".py")
    with open(path, encoding="utf-8") as f:
        head = f.read(600)
    kind = re.search(r"# cluster: (\w+)", head)[1]
    m = re.search(r"# tol: ([\d.e+-]+)", head)
    tolerance = float(m[1]) if m else 1e-5
    m = re.search(r"# ignore: ([\w,]+)", head)
    ignore = set(m[1].split(",")) if m else set()
    cluster = {job: ["127.0.0.1:%d" % (1 + i) for i in range(n)] for job, n in KINDS[kind]}
    scratch = tempfile.mkdtemp(prefix="meshflow-corpus")
    try:
        done = subprocess.run(
            [sys.executable, os.path.join(HERE, "local_session.py"), path, "grpc://127.0.0.1:1",
             json.dumps(cluster), scratch], capture_output=True, text=True, timeout=SECONDS,
            check=False)
    except subprocess.TimeoutExpired:
        return dict(failures=["no answer within %d s" % SECONDS])
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        errors = re.findall(r"^\S*(?:Error|Exception)\b.*(?:\n\s+\[\[.*)?", done.stderr, re.M)
        return dict(failures=["ended with %d: %s" % (done.returncode, "\n".join(errors[:3]) or
                                                     done.stderr.strip()[-500:])])
    with open(os.path.join(CORPUS, "expected", name + ".json"), encoding="utf-8") as f:
        want = json.load(f)
    got = json.loads(lines[-1])
    keep = [{k: v for k, v in d.items() if k not in ignore} for d in (want, got)]
    return dict(failures=differences(*keep, tolerance)[:8])
