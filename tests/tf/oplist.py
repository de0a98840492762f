# SPDX-License-Identifier: Apache-2.0
"""What Meshflow has: ops with signature and samples, and passes. From `meshflow ops --json` and
`meshflow graph optimize --list`, or, where the program has no such command yet, out of the library's
own tables."""
import ctypes
import functools
import json
import os
import subprocess

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PROGRAM = os.environ.get("MESHFLOW") or os.path.join(ROOT, "build", "release", "meshflow")


class Op:
    """gradient: 'yes', 'none' (the op stops gradients) or 'missing'; kind: 'op' or 'control'."""

    def __init__(self, name, definition, samples, gradient):
        self.name = name
        self.definition = definition
        self.samples = samples
        self.gradient = gradient


def _program(*args):
    try:
        done = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60,
                              check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 and done.stdout.lstrip()[:1] in "[{" else None


def _from_program():
    text = _program("ops", "--json")
    if not text:
        return None
    ops = json.loads(text)
    ops = ops["ops"] if isinstance(ops, dict) else ops
    return [Op(o["name"], o.get("def") or o["definition"], o.get("samples") or [],
               o.get("gradient", "yes")) for o in ops]


class _OpStruct(ctypes.Structure):
    """struct mf_op of src/graph/op.h."""
    _fields_ = [("name", ctypes.c_char_p), ("def_", ctypes.c_char_p), ("flags", ctypes.c_uint),
                ("control", ctypes.c_int), ("infer", ctypes.c_void_p), ("grad", ctypes.c_void_p),
                ("prepare", ctypes.c_void_p), ("release", ctypes.c_void_p),
                ("run", ctypes.c_void_p), ("start", ctypes.c_void_p), ("loop", ctypes.c_void_p),
                ("samples", ctypes.POINTER(ctypes.c_char_p))]


class _PassStruct(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("about", ctypes.c_char_p), ("exact", ctypes.c_bool),
                ("run", ctypes.c_void_p)]


def _local_symbols(*wanted):
    """Addresses of functions that the library does not export, from its symbol table."""
    import meshflow_lib
    path = meshflow_lib.lib._name
    lines = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    table = {p[2]: int(p[0], 16) for p in map(str.split, lines.splitlines()) if len(p) == 3}
    here = ctypes.cast(meshflow_lib.lib.mf_error_message, ctypes.c_void_p).value
    return [table[w] + here - table["mf_error_message"] for w in wanted]


def _from_library():
    all_ops, none, missing = _local_symbols("mf_op_all", "mf_grad_none", "mf_grad_missing")
    fn = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.POINTER(_OpStruct)),
                          ctypes.POINTER(ctypes.c_int))(all_ops)
    n = ctypes.c_int()
    table = fn(ctypes.byref(n))
    out = []
    for i in range(n.value):
        op = table[i].contents
        samples, k = [], 0
        while op.samples and op.samples[k] is not None:
            samples.append(op.samples[k].decode())
            k += 1
        gradient = {none: "none", missing: "missing"}.get(op.grad, "yes")
        out.append(Op(op.name.decode(), op.def_.decode(), samples, gradient))
    return out


@functools.lru_cache(None)
def ops():
    return _from_program() or _from_library()


@functools.lru_cache(None)
def passes():
    """[(name, exact)]"""
    text = _program("graph", "optimize", "--list", "--json")
    if text:
        return [(p["name"], p["exact"]) for p in json.loads(text)]
    fn = ctypes.CFUNCTYPE(ctypes.POINTER(_PassStruct), ctypes.POINTER(ctypes.c_int))(
        _local_symbols("mf_passes")[0])
    n = ctypes.c_int()
    table = fn(ctypes.byref(n))
    return [(table[i].name.decode(), bool(table[i].exact)) for i in range(n.value)]
