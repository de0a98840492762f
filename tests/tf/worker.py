# SPDX-License-Identifier: Apache-2.0
"""A worker process of the tests: reads units of work from stdin, one line of JSON each, and replies on stdout. Before
anything that could crash the process, it reports what it is about to do and the results so far, so that run.py can
attribute a crash and continue after it. The work is done in a child process: importing TensorFlow takes seconds, forking
a process that has imported it does not."""
import json
import os
import sys
import traceback

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # whatever programs print

import differential  # noqa: E402
import gradients  # noqa: E402
import oplist  # noqa: E402
import random_graphs  # noqa: E402
import signatures  # noqa: E402


def say(what, **more):
    answers.write(json.dumps(dict(what=what, **more)) + "\n")
    answers.flush()


def outcome(report):
    return dict(failures=report.failures, compared=report.compared, refused=report.refused,
                no_kernel=report.no_kernel, not_compared=report.not_compared,
                samples=report.samples, types=sorted(report.types),
                lacking=sorted(report.lacking), missing=sorted(report.missing), tolerance=report.tolerance)


def run(unit):
    start = unit.get("start", 0)

    def progress(text, index, report):
        say("at", text=text, index=index, **outcome(report))

    kind, name, seed = unit["kind"], unit["name"], unit["seed"]
    by_name = {o.name: o for o in oplist.ops()}
    if kind == "signature":
        return dict(failures=signatures.check(by_name[name]))
    if kind == "op":
        return outcome(differential.check(by_name[name], seed, unit["count"], start,
                                          progress))
    if kind == "gradient":
        return outcome(gradients.check(by_name[name], seed, start, progress))
    if kind == "composed":
        import composed
        return composed.check(name)
    if kind == "control":
        import control_flow
        return outcome(control_flow.check(name, progress))
    if kind == "reading":
        import reading
        return outcome(reading.check(name, progress))
    if kind == "model":
        import models
        return dict(failures=models.check(name, seed))
    if kind == "training":
        import training
        return dict(failures=training.check(name, seed))
    if kind == "checkpoint":
        import checkpoints
        return checkpoints.check(name)
    if kind == "data":
        import data
        return data.check(name)
    if kind == "cluster":
        import cluster
        return cluster.check(name)
    if kind == "devices":
        import devices
        return devices.check(name, seed)
    if kind == "document":
        import documents
        return documents.check(name)
    if kind == "client":
        import client
        return client.check(name)
    if kind == "loop":
        import loop
        return loop.check(name)
    if kind == "graphs":
        return outcome(random_graphs.check(int(name), seed, unit["count"], start, progress))
    raise ValueError(kind)


def line_of(fd):
    """The next line, and no byte after it, which belongs to the next process."""
    out = b""
    while not out.endswith(b"\n"):
        more = os.read(fd, 1)
        if not more:
            return None
        out += more
    return out


def work():
    """Never returns."""
    while True:
        line = line_of(0)
        if line is None:
            os._exit(0)
        try:
            say("done", **run(json.loads(line)))
        except Exception:  # pylint: disable=broad-except
            say("done", failures=["the test itself failed:\n" + traceback.format_exc()])


def main():
    oplist.ops()
    while True:
        pid = os.fork()
        if pid == 0:
            work()
        if os.waitpid(pid, 0)[1] == 0:
            break
        say("died")


main()
