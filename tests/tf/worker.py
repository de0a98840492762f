# SPDX-License-Identifier: Apache-2.0
"""One process of the tests: takes units of work from stdin, a line of JSON each, and answers on stdout.
Before anything that could end the process, it says what it is about to do and what came out so far, so
that run.py can tell who died, and go on behind it."""
import json
import os
import sys
import traceback

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # whatever programs print


def say(what, **more):
    answers.write(json.dumps(dict(what=what, **more)) + "\n")
    answers.flush()


def outcome(report):
    return dict(failures=report.failures, compared=report.compared, refused=report.refused,
                no_kernel=report.no_kernel, not_compared=report.not_compared,
                samples=report.samples, types=sorted(report.types),
                lacking=sorted(report.lacking), missing=sorted(report.missing), tolerance=report.tolerance)


def run(unit):
    import oplist
    start = unit.get("start", 0)

    def progress(text, index, report):
        say("at", text=text, index=index, **outcome(report))

    kind, name, seed = unit["kind"], unit["name"], unit["seed"]
    by_name = {o.name: o for o in oplist.ops()}
    if kind == "signature":
        import signatures
        return dict(failures=signatures.check(by_name[name]))
    if kind == "op":
        import differential
        return outcome(differential.check(by_name[name], seed, unit["count"], start,
                                          progress))
    if kind == "gradient":
        import gradients
        return outcome(gradients.check(by_name[name], seed, start, progress))
    if kind == "control":
        import control_flow
        return outcome(control_flow.check(name, progress))
    if kind == "graphs":
        import random_graphs
        return outcome(random_graphs.check(int(name), seed, unit["count"], start, progress))
    raise ValueError(kind)


def main():
    for line in sys.stdin:
        unit = json.loads(line)
        try:
            say("done", **run(unit))
        except Exception:  # pylint: disable=broad-except
            say("done", failures=["the test itself failed:\n" + traceback.format_exc()])


main()
