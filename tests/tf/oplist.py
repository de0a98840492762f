# SPDX-License-Identifier: Apache-2.0
"""What Meshflow has: ops with signature and samples (`meshflow ops --json`), and passes (`meshflow graph
optimize --list`)."""
import functools
import json
import os
import subprocess

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PROGRAM = os.environ.get("MESHFLOW") or os.path.join(ROOT, "build", "release", "meshflow")


class Op:
    """gradient: 'yes', 'none' (the op stops gradients) or 'missing'."""

    def __init__(self, name, definition, samples, gradient):
        self.name = name
        self.definition = definition
        self.samples = samples
        self.gradient = gradient


def _program(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60,
                          check=True).stdout


@functools.lru_cache(None)
def ops():
    return [Op(o["name"], o["def"], o["samples"], o["gradient"])
            for o in json.loads(_program("ops", "--json"))]


@functools.lru_cache(None)
def passes():
    """[(name, exact)]"""
    lines = _program("graph", "optimize", "--list").splitlines()
    return [(p[0], p[1] == "exact") for p in map(str.split, lines)]
