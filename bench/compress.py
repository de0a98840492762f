#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The speed of compressed models: fashion-cnn in float against the output of `meshflow compress`, both
measured by turns in one run. One row each: subject, what, before, after, ratio (above 1: faster).

Usage: compress.py [PATTERN]     MESHFLOW: the program (build/meshflow)
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MESHFLOW = os.environ.get("MESHFLOW", os.path.join(ROOT, "build", "meshflow"))
DATA = ["--data", "fashion-mnist"]
WAYS = {
    "int8": ["--quantize", "int8"],
    "int8, one thread": ["--quantize", "int8", "--threads", "1"],
    "half of the units": ["--prune", "units share=0.5"],
    "low rank": ["--rank", "rank=16 layers=dense", "--rank", "rank=24 layers=conv2d_1"],
    "half, low rank, int8": ["--prune", "units share=0.5", "--rank", "rank=16 layers=dense", "--quantize",
                             "int8"],
}


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([MESHFLOW, "train", "--model", "fashion-cnn", *DATA, "--batch", "128", "--steps", "50",
                        "--optimizer", "momentum", "--no-test", "--quiet", "--out", work], check=True)
        for name, way in WAYS.items():
            if pattern not in name:
                continue
            out = subprocess.run([MESHFLOW, "compress", work, *DATA, *way, "--epochs", "0", "--json"],
                                 capture_output=True, text=True, check=True).stdout
            r = json.loads(out)
            a, b = r["before"], r["after"]
            for what, before, after, unit, ratio in (
                    ("inference", a["samples_per_second"], b["samples_per_second"], "samples/s",
                     b["samples_per_second"] / a["samples_per_second"]),
                    ("training step", 1e3 * a["step_seconds"], 1e3 * b["step_seconds"], "ms",
                     a["step_seconds"] / b["step_seconds"])):
                print("%-22s %-14s %12.1f %12.1f %-10s %6.2f" % (name, what, before, after, unit, ratio), flush=True)


if __name__ == "__main__":
    main()
