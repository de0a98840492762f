# SPDX-License-Identifier: Apache-2.0
"""Models of libmeshflow through ctypes, as far as the tests need it: layers and losses, run with given
weights for inference, and for training with gradients."""
import ctypes

import numpy as np
from tensorflow.core.framework import graph_pb2

import meshflow_lib as mf
from meshflow_lib import P, check, lib


class Output(ctypes.Structure):
    _fields_ = [("node", P), ("port", ctypes.c_int)]


lib.mf_model_graph.restype = P
lib.mf_model_graph.argtypes = [P]
lib.mf_model_free.argtypes = [P]
lib.mf_model_status.argtypes = [P]
lib.mf_graph_find.restype = P
lib.mf_graph_find.argtypes = [P, ctypes.c_char_p]
lib.mf_node_name.restype = ctypes.c_char_p
lib.mf_node_name.argtypes = [P]
lib.mf_model_output.argtypes = [P, Output]
lib.mf_bytes_free.argtypes = [P]
for function in (lib.mf_model_input, lib.mf_layer, lib.mf_loss, lib.mf_apply, lib.mf_applyf):
    function.restype = Output
TYPES = {np.dtype(np.float32): "float", np.dtype(np.int32): "int32", np.dtype(np.int64): "int64",
         np.dtype(np.uint8): "uint8"}


def outputs(list_):
    return (Output * (len(list_) + 1))(*list_, Output(None, -1))


class Model:
    """One model. Build first (input, layer, loss), then run."""

    def __init__(self):
        self.model = P()
        check(lib.mf_model_new(ctypes.byref(self.model)))
        self.graph = P(lib.mf_model_graph(self.model))
        self.inputs = {}

    def close(self):
        lib.mf_model_free(self.model)

    def input(self, name, array):
        dims = (ctypes.c_int64 * max(1, array.ndim - 1))(*array.shape[1:])
        out = lib.mf_model_input(self.model, name.encode(), mf.NUMBER[array.dtype], dims, array.ndim - 1)
        self.inputs[name] = (out, array)
        return out

    def layer(self, kind, inputs, settings=""):
        out = lib.mf_layer(self.model, kind.encode(), outputs(inputs), b"%s", settings.encode())
        check(lib.mf_model_status(self.model))
        return out

    def loss(self, text, output, label):
        out = lib.mf_loss(self.model, text.encode(), output, label)
        check(lib.mf_model_status(self.model))
        return out

    def apply(self, op, inputs, attributes=""):
        out = lib.mf_applyf(self.graph, op.encode(), outputs(inputs), b"%s", attributes.encode())
        check(lib.mf_model_status(self.model))
        return out

    def end(self, output):
        lib.mf_model_output(self.model, output)

    def find(self, name):
        return Output(lib.mf_graph_find(self.graph, name.encode()), 0)

    def name(self, output):
        return "%s:%d" % (lib.mf_node_name(output.node).decode(), output.port)

    def encode(self):
        data, size = P(), ctypes.c_size_t()
        check(lib.mf_graph_encode(self.graph, ctypes.byref(data), ctypes.byref(size)))
        try:
            return ctypes.string_at(data, size.value)
        finally:
            lib.mf_bytes_free(data)

    def weights(self):
        """Names in the order they were made; True: looked up by rows."""
        nodes = graph_pb2.GraphDef.FromString(self.encode()).node
        gathered = {n.input[0] for n in nodes if n.op == "ResourceGather"}
        return {n.name: n.name in gathered for n in nodes if n.op == "VarHandleOp"}

    def gradients(self, y, xs, dy):
        dxs = (Output * max(1, len(xs)))()
        check(lib.mf_gradients(self.graph, (Output * 1)(y), 1, (Output * max(1, len(xs)))(*xs), len(xs),
                               (Output * 1)(dy), dxs))
        return list(dxs)[:len(xs)]

    def run(self, y, dy, values):
        """The output without training, the output in training, and the gradients by name, where dy
        arrives at the output. values: of the weights."""
        weights = self.weights()
        floats = {n: o for n, (o, a) in self.inputs.items() if a.dtype == np.float32}
        sources = dict(floats)
        sources.update({n: self.find(n if rows else n + "/Read") for n, rows in weights.items()})
        arriving = self.input("dy", dy)
        gradients = self.gradients(y, list(sources.values()), arriving)
        names = [n for n, g in zip(sources, gradients) if g.node]
        results = [y] + [g for g in gradients if g.node]
        batched = [o for o, _ in self.inputs.values()]
        shared = [self.find(n + "/Read") for n, rows in weights.items() if not rows]
        shared.append(self.find("clock"))
        lib.mf_define(self.graph, b"step", outputs(batched + shared), outputs(results))
        sums = [n not in self.inputs for n in names]
        step = self.apply("_ShardMap", batched + shared,
                          "f=@step shards=1 join=[%s] Tbatched=[%s] Tshared=[%s] Tout=[%s]" % (
                              ",".join(["'concat'"] + ["'sum'" if s else "'concat'" for s in sums]),
                              ",".join(TYPES[a.dtype] for _, a in self.inputs.values()),
                              ",".join(["float"] * (len(shared) - 1) + ["int64"]),
                              ",".join(["float"] * len(results))))
        assigns = {}
        for n in weights:
            value = self.apply("Placeholder", [], "dtype=float name='value/%s'" % n)
            assigns[self.name(value)] = (n, self.apply("AssignVariableOp", [self.find(n), value]))
        with mf.Session(self.encode()) as session:
            if assigns:
                session.run([], {k: values[n] for k, (n, _) in assigns.items()},
                            [self.name(o).partition(":")[0] for _, o in assigns.values()])
            feeds = {n + ":0": a for n, (_, a) in self.inputs.items()}
            still = session.run([self.name(y)], {k: v for k, v in feeds.items() if k != "dy:0"})[0]
            feeds["clock:0"] = np.array([1, 2], np.int64)
            out = session.run([self.name(Output(step.node, i)) for i in range(len(results))], feeds)
        return still, out[0], dict(zip(names, out[1:]))
