#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of checkpoints: fashion-cnn with a checkpoint every 50 steps, against the same training without
checkpoints. Other programs are not compared.

Usage: checkpointing.py [--rounds N] [--steps N] [--batch N]     MESHFLOW: the program (build/meshflow)

The effect is a percent or two, less than the noise of a machine. So many short runs alternate, with the order
reversed in every other pair; both runs of a pair have similar noise, and the median of their ratios counts. There
are two clocks: wall time, which a user waits for; and the CPU time of the whole process (user and system,
including the writer thread), which has less noise but excludes waiting for the disk. Each has a bootstrap
interval of 95 %; if it contains 1, there is no significant difference.
"""
import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MESHFLOW = os.environ.get("MESHFLOW", os.path.join(ROOT, "build", "meshflow"))
SAVE_STEPS = 50
RESAMPLES = 2000


def spawn(command):
    """Runs it; (seconds on the wall, seconds of CPU)."""
    begin = time.perf_counter()
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = p.stderr.read()
    _, status, usage = os.wait4(p.pid, 0)
    wall = time.perf_counter() - begin
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode != 0:
        raise RuntimeError("%s: %s" % (" ".join(command), said.strip()))
    return wall, usage.ru_utime + usage.ru_stime


def saving(command, folder):
    """The same with checkpoints; the folder is fresh each time, and removing it is not measured."""
    out = os.path.join(folder, "out")
    seconds = spawn([*command, "--save-steps", str(SAVE_STEPS), "--out", out])
    kept = [f for f in os.listdir(out) if f.endswith(".index")]
    if not kept:
        raise RuntimeError("no checkpoint was written")
    shutil.rmtree(out)
    return seconds


def rounds(command, n):
    """n pairs ((wall, cpu) with checkpoints, (wall, cpu) without)."""
    pairs = []
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        saving(command, folder)  # the first one finds files that are not in memory yet
        for i in range(n):
            if i % 2:
                plain = spawn(command)
                pairs.append((saving(command, folder), plain))
            else:
                saved = saving(command, folder)
                pairs.append((saved, spawn(command)))
    return pairs


def interval(ratios):
    """Of the median, 95 %. The draws are always the same: the figures alone shall decide."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 40], medians[-RESAMPLES // 40 - 1]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=20)
    p.add_argument("--steps", type=int, default=500)
    p.add_argument("--batch", type=int, default=128)
    args = p.parse_args()
    if args.rounds < 1 or args.steps < SAVE_STEPS:
        p.error("at least one round, and %d steps" % SAVE_STEPS)
    command = [MESHFLOW, "train", "--model", "fashion-cnn", "--data", "fashion-mnist", "--batch",
               str(args.batch), "--optimizer", "momentum", "--lr", "0.05", "--steps", str(args.steps),
               "--no-test", "--quiet"]
    pairs = rounds(command, args.rounds)
    for k, clock in enumerate(("wall", "CPU")):
        ratios = [saved[k] / plain[k] for saved, plain in pairs]
        low, high = interval(ratios)
        print("%-22s %-12s %12.2f %12.2f %-10s %6.3f  95 %%: %.3f to %.3f; %d pairs, %d checkpoints each" %
              ("checkpoints, %s" % clock, "B=%d" % args.batch,
               statistics.median(saved[k] for saved, _ in pairs),
               statistics.median(plain[k] for _, plain in pairs), "s", statistics.median(ratios), low,
               high, len(pairs), args.steps // SAVE_STEPS), flush=True)


if __name__ == "__main__":
    sys.exit(main())
