# SPDX-License-Identifier: Apache-2.0
"""Meshflow's mesh, through ctypes: a program (programs.py) becomes a graph whose inputs and results are variables with named
dimensions, so that feeds and fetches need no communication, and only the program's own traffic is counted.
"""
import ctypes
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "tf"))
import meshflow_lib as mf  # noqa: E402


class Output(ctypes.Structure):
    _fields_ = [("node", mf.P), ("port", ctypes.c_int)]


class MeshOptions(ctypes.Structure):
    _fields_ = [("mesh", ctypes.c_char_p), ("layout", ctypes.c_char_p), ("exact", ctypes.c_bool),
                ("session", mf.SessionOptions)]


def counters():
    """The fields of mf_mesh_counts, as the header has them."""
    with open(os.path.join(HERE, "..", "..", "include", "meshflow", "mesh.h")) as header:
        body = re.search(r"typedef struct mf_mesh_counts \{(.*?)\}", header.read(), re.S).group(1)
    return [name.strip() for line in re.findall(r"int64_t ([^;]*);", body) for name in line.split(",")]


class Counts(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_int64) for name in counters()),
                ("turns", ctypes.c_char * (1 << 16))]  # of any size: not used here


END = Output(None, -1)
lib = mf.lib
lib.mf_applyf.restype = Output
lib.mf_applyf.argtypes = [mf.P, ctypes.c_char_p, mf.P, ctypes.c_char_p]
lib.mf_constant.restype = Output
lib.mf_constant.argtypes = [mf.P, mf.P, ctypes.c_char_p]
lib.mf_name_dims.argtypes = [mf.P, Output, ctypes.c_char_p]
lib.mf_control.argtypes = [mf.P, mf.P, mf.P]
lib.mf_gradients.argtypes = [mf.P, mf.P, ctypes.c_int, mf.P, ctypes.c_int, mf.P, mf.P]
lib.mf_mesh_session_counts.argtypes = [mf.P, ctypes.c_int, mf.P]


def outputs(list_):
    return (Output * (len(list_) + 1))(*list_, END)


class Graph:
    """g("MatMul", a, b, "transpose_b=true"): inputs, then attributes as text."""

    def __init__(self):
        self.graph = mf.P()
        mf.check(lib.mf_graph_new(ctypes.byref(self.graph)))

    def __call__(self, op, *inputs):
        attrs = inputs[-1] if inputs and isinstance(inputs[-1], str) else ""
        inputs = [self.const(i) if isinstance(i, (int, float, list)) else i
                  for i in inputs if not isinstance(i, str)]
        return lib.mf_applyf(self.graph, op.encode(), outputs(inputs), b"%s", attrs.encode())

    def const(self, value):
        """Floats are float32, integers and lists of them int32."""
        import numpy as np
        t = mf.to_tensor(np.asarray(value, np.float32 if isinstance(value, float) else np.int32))
        out = lib.mf_constant(self.graph, t, None)
        lib.mf_tensor_free(t)
        return out

    def einsum(self, equation, *inputs):
        return self("Einsum", *inputs, "equation='%s'" % equation)

    def sum(self, x, axes, keep=False):
        return self("Sum", x, axes, "keep_dims=%s" % str(keep).lower())

    def mean(self, x, axes, keep=False):
        return self("Mean", x, axes, "keep_dims=%s" % str(keep).lower())

    def dims(self, x, names):
        """The same value, whose dimensions are called so."""
        y = self("Identity", x)
        lib.mf_name_dims(self.graph, y, names.encode())
        return y

    def gradients(self, y, xs):
        out = (Output * len(xs))()
        mf.check(lib.mf_gradients(self.graph, outputs([y]), 1, outputs(xs), len(xs), None, out))
        # Copies, because the array is freed.
        return [Output(o.node, o.port) for o in out]

    def variable(self, name, dims, shape, dtype):
        v = self("VarHandleOp", "dtype=%s shape=shape[%s] shared_name='%s' name='%s'" %
                 (dtype, ",".join(map(str, shape)), name, name))
        if dims:
            lib.mf_name_dims(self.graph, v, dims.encode())
        return v

    def after(self, name, nodes):
        """A target of this name."""
        target = self("NoOp", "name='%s'" % name)
        for n in nodes:
            lib.mf_control(self.graph, target.node, n.node)

    def status(self):
        mf.check(lib.mf_graph_status(self.graph))


class Run(mf.Session):
    """A program on a mesh. step() runs it once; bytes() is what all devices have received, and
    each of them at most, by one step."""

    def __init__(self, program, mesh, layout, threads=0, train=False):
        self.session, self.program = None, program
        self.n = eval("*".join(axis.split(":")[1] for axis in mesh.split(";")))
        g = self.build(train)
        options = MeshOptions(mesh.encode(), layout.encode(), False,
                              mf.SessionOptions(threads=threads))
        session = mf.P()
        try:
            mf.check(lib.mf_mesh_session_new(g.graph, ctypes.byref(options), ctypes.byref(session)))
        finally:
            lib.mf_graph_free(g.graph)
        self.session = session
        self.run([], {n + "/feed": v for n, v in program.values().items()}, ["init"])

    def build(self, train):
        p, g = self.program, Graph()
        variables, reads, assigns, results = {}, {}, [], []
        for name, dims in p.inputs.items():
            dtype = "int32" if name in p.indices else "float"
            v = g.variable(name, dims, p.shape(dims), dtype)
            feed = g("Placeholder", "dtype=%s shape=shape[%s] name='%s/feed'" %
                     (dtype, ",".join(map(str, p.shape(dims))), name))
            assigns.append(g("AssignVariableOp", v, feed))
            reads[name] = g("ReadVariableOp", v, "dtype=%s name='%s/read'" % (dtype, name))
            variables[name] = v
        g.after("init", assigns)
        out = p.ours(g, **reads)
        for name in p.gradients:
            out["d" + name] = None
        if p.gradients:
            ds = g.gradients(out[p.loss], [reads[n] for n in p.gradients])
            out.update(("d" + n, d) for n, d in zip(p.gradients, ds))
        if train:
            results = [g("ResourceApplyGradientDescent", variables[n], p.rate, out["d" + n])
                       for n in p.gradients]
        else:
            for name, dims in p.results().items():
                v = g.variable(name, dims, p.shape(dims), "float")
                results.append(g("AssignVariableOp", v, out[name]))
                g("ReadVariableOp", v, "dtype=float name='%s/read'" % name)
        g.after("step", results)
        g.status()
        return g

    def step(self):
        self.run([], {}, ["step"])

    def counts(self):
        c = [Counts() for _ in range(self.n)]
        for i, x in enumerate(c):
            mf.check(lib.mf_mesh_session_counts(self.session, i, ctypes.byref(x)))
        return c

    def bytes(self):
        before = [c.received_bytes for c in self.counts()]
        self.step()
        moved = [c.received_bytes - b for c, b in zip(self.counts(), before)]
        return sum(moved), max(moved)

    def results(self):
        names = list(self.program.results())
        return dict(zip(names, self.run([n + "/read" for n in names])))

    def values(self, names):
        """Of inputs, which training changes."""
        return self.run([n + "/read" for n in names])
