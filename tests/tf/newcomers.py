# SPDX-License-Identifier: Apache-2.0
"""Client programs of other kinds than those of the corpus (corpus/n*.py): their output with TensorFlow's servers in the
same run must equal the output with Meshflow's servers, and with mixed clusters."""
import glob
import json
import os
import re
import shutil
import tempfile

import programs

NAMES = sorted(os.path.basename(p)[:-3] for p in glob.glob(os.path.join(programs.CORPUS, "n[0-9]*.py")))
# What `make test` runs; the long sweep runs all.
QUICK = ["n05_branches", "n11_queues_two_workers", "n12_accumulators_by_hand", "n15_partial_runs",
         "n16_fused_by_the_master"]


def names(soak=False):
    return NAMES if soak else QUICK


def layouts(cluster):
    """{name: the tasks that are ours}"""
    out = {"our servers": programs.tasks_of(cluster)}
    if "ps" in cluster:
        out["our parameter servers"] = [t for t in out["our servers"] if t[0] == "ps"]
        out["our workers"] = [t for t in out["our servers"] if t[0] == "worker"]
    return out


def answer(name, kind, ours, runner):
    """(its output, "") or (None, the error)"""
    cluster = programs.free_cluster(dict(programs.KINDS[kind]))
    scratch = tempfile.mkdtemp(prefix="meshflow-newcomer")
    servers = None
    try:
        theirs = [t for t in programs.tasks_of(cluster) if t not in ours]
        if theirs:
            runner.start_tasks(cluster, theirs)
        servers = programs.Servers(cluster, scratch, ours) if ours else None
        status, out, err = runner.run(os.path.join(programs.CORPUS, name + ".py"), cluster, scratch,
                                      programs.first_worker(cluster), "theirs")
    finally:
        ended = servers.stop() if servers else 0
        shutil.rmtree(scratch, ignore_errors=True)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if status == 0 and ended == 0 and lines:
        return json.loads(lines[-1].replace(scratch, "SCRATCH")), ""
    return None, "ended with %s, servers with %d: %s" % (status, ended, (re.findall(r"^\S*Error\b.*(?:\n.*){0,4}", err, re.M) or [err])[-1].strip()[-700:])


def check(name, runner):
    with open(os.path.join(programs.CORPUS, name + ".py"), encoding="utf-8") as f:
        head = f.read(600)
    kind = re.search(r"# cluster: (\w+)", head)[1]
    m = re.search(r"# tol: ([\d.e+-]+)", head)
    want, wrong = answer(name, kind, [], runner)
    if want is None:
        return dict(failures=["TensorFlow's own servers: " + wrong])
    failures = []
    for layout, ours in layouts(programs.free_cluster(dict(programs.KINDS[kind]))).items():
        got, wrong = answer(name, kind, ours, runner)
        failures += [layout + ": " + d for d in
                     ([wrong] if got is None else programs.differences(want, got, float(m[1]) if m else 1e-5)[:6])]
    return dict(failures=failures)
