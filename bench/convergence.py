#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How late `--stop converged` ends trainings, and its cost: three tasks, each trained to the end and with it.

Usage: convergence.py [PATTERN]      MESHFLOW: the program (build/meshflow)

The plateau is the first step at which the validation loss of the full training is at most 0.5 % above its minimum:
the ideal stop. The limits are a stop at most 10 % after it, and a validation loss at most 0.5 % above the minimum.
Prints: task, total steps, plateau, stop, delay, difference of the loss.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MESHFLOW = os.environ.get("MESHFLOW", os.path.join(ROOT, "build", "meshflow"))
TASKS = {
    "mlp": ["--model", "mlp", "--data", "fashion-mnist", "--optimizer", "momentum", "--lr", "0.1", "--batch", "128",
            "--epochs", "40"],
    "wide-deep": ["--model", "wide-deep", "--data", "synthetic-ctr", "--optimizer", "adam", "--batch", "128",
                  "--epochs", "12"],
    "text-cnn": ["--model", "text-cnn vocabulary=256", "--data", "synthetic-text", "--optimizer", "adam", "--batch",
                 "64", "--epochs", "12"],
}


def train(options, *more):
    """Steps done, and (step, validation loss) of each epoch."""
    with tempfile.TemporaryDirectory() as out:
        r = subprocess.run([MESHFLOW, "train", *options, *more, "--validation", "0.1", "--out", out, "--no-test",
                            "--quiet", "--json"], capture_output=True, text=True, check=True)
        with open(os.path.join(out, "curve.csv")) as f:
            rows = [(int(x["step"]), float(x["loss"])) for x in csv.DictReader(f) if x["part"] == "validation"]
    return json.loads(r.stdout.splitlines()[-1]), rows


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    print("%-12s %8s %9s %8s %8s %8s  %s" % ("task", "steps", "plateau", "stop", "late", "worse", "ended"))
    for name, options in TASKS.items():
        if pattern not in name:
            continue
        told, curve = train(options)
        least = min(loss for _, loss in curve)
        plateau = next(step for step, loss in curve if loss <= 1.005 * least)
        ended, stopped = train(options, "--stop", "converged")
        worse = min(loss for _, loss in stopped) / least - 1 if stopped else float("nan")
        print("%-12s %8d %9d %8d %7.0f%% %7.2f%%  %s" %
              (name, told["steps"], plateau, ended["steps"], 100 * (ended["steps"] / plateau - 1), 100 * worse,
               ended["ended"]), flush=True)


if __name__ == "__main__":
    main()
