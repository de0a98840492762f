#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the definition lines of ops as src/graph/opdef.h writes them, from TensorFlow's registry.

Usage: build/venv/bin/python tools/tf_opdef.py OP...
       build/venv/bin/python tools/tf_opdef.py --absent      writes src/graph/absent_ops.c
"""
import json
import os
import re
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
from tensorflow.python.framework import dtypes, op_def_registry, tensor_util  # noqa: E402
from tensorflow.python import ops as _ops  # noqa: E402,F401  (registers Python-side ops)

INTS = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
FLOATS = {"half", "bfloat16", "float", "double"}
COMPLEX = {"complex64", "complex128"}
QUANTIZED = {"qint8", "quint8", "qint32", "qint16", "quint16"}
SETS = {"floats": FLOATS, "reals": FLOATS | INTS, "ints": INTS, "index": {"int32", "int64"},
        "numbers": FLOATS | INTS | COMPLEX | QUANTIZED}
# Types that Meshflow does not have are dropped from allowed lists.
KNOWN = FLOATS | INTS | COMPLEX | QUANTIZED | {"string", "bool", "resource", "variant"}


def type_name(number):
    name = dtypes.as_dtype(number).name
    return {"float32": "float", "float64": "double", "float16": "half"}.get(name, name)


def quote(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def shape_text(shape):
    if shape.unknown_rank:
        return "shape?"
    return "shape[%s]" % ",".join("?" if d.size < 0 else str(d.size) for d in shape.dim)


def tensor_text(proto):
    array = tensor_util.MakeNdarray(proto)
    return "%s[%s]{%s}" % (type_name(proto.dtype), ",".join(map(str, array.shape)),
                           ",".join("%.9g" % v for v in array.reshape(-1)))


def value_text(value):
    kind = value.WhichOneof("value")
    if kind == "list":
        lst = value.list
        items = ([quote(s.decode()) for s in lst.s] + [str(i) for i in lst.i] +
                 ["%.9g" % f for f in lst.f] + [str(b).lower() for b in lst.b] +
                 [type_name(t) for t in lst.type] + [shape_text(s) for s in lst.shape])
        return "[%s]" % ",".join(items)
    return {"s": lambda: quote(value.s.decode("latin1")), "i": lambda: str(value.i),
            "f": lambda: "%.9g" % value.f, "b": lambda: str(value.b).lower(),
            "type": lambda: type_name(value.type), "shape": lambda: shape_text(value.shape),
            "func": lambda: "@" + value.func.name,
            "tensor": lambda: tensor_text(value.tensor)}[kind]()


def arg_text(arg):
    if arg.type_list_attr:
        kind = "*" + arg.type_list_attr
    else:
        kind = arg.type_attr or type_name(arg.type)
        if arg.number_attr:
            kind = arg.number_attr + "*" + kind
    return "%s:%s%s" % (arg.name, "ref " if arg.is_ref else "", kind)


def allowed_text(attr):
    lst = attr.allowed_values.list
    if lst.type:
        names = {type_name(t) for t in lst.type} & KNOWN
        for alias, members in SETS.items():
            if names == members:
                return " in " + alias
        return " in [%s]" % ",".join(type_name(t) for t in lst.type if type_name(t) in KNOWN)
    if lst.s:
        return " in [%s]" % ",".join(quote(s.decode()) for s in lst.s)
    return ""


def attr_text(attr):
    text = "%s:%s" % (attr.name, attr.type)
    if attr.has_minimum:
        text += ">=%d" % attr.minimum
    if attr.HasField("default_value"):
        text += "=" + value_text(attr.default_value)
    return text + allowed_text(attr)


def def_text(op):
    text = "(%s) -> (%s)" % (", ".join(map(arg_text, op.input_arg)),
                             ", ".join(map(arg_text, op.output_arg)))
    text += " {%s}" % ", ".join(map(attr_text, op.attr))
    for flag in ("is_commutative", "is_aggregate", "is_stateful", "allows_uninitialized_input",
                 "is_distributed_communication"):
        if getattr(op, flag):
            text += " " + flag
    return text


# Ops of accelerators, and of TensorFlow's own tests.
ELSEWHERE = re.compile(r"TPU|Tpu|Xla|Risc|Cudnn|Nccl|Sparse[cC]ore|DTensor|^Test|^_")
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
HEAD = """/* SPDX-License-Identifier: Apache-2.0 */
/* absent_ops.c - TensorFlow's ops that Meshflow does not compute. Written by
 * `tools/tf_opdef.py --absent`; an op that is added to ops/ leaves this list. */
#include "graph/absent.h"

#include <stddef.h>

/* clang-format off */
const mf_absent_op mf_absent_ops[] = {
"""


def c_string(text):
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"')


def absent_text(have):
    """The table of TensorFlow's public ops that are not in `have`, in the order of their names."""
    import tensorflow as tf
    names = sorted(n for n in dir(tf.raw_ops) if n not in have and not ELSEWHERE.search(n))
    ops = [(n, op_def_registry.get(n)) for n in names]
    rows = ["    { %s, %s }," % (c_string(n), c_string(def_text(op))) for n, op in ops if op]
    return HEAD + "\n".join(rows) + "\n    { NULL, NULL },\n};\n"


def write_absent():
    program = os.environ.get("MESHFLOW") or os.path.join(ROOT, "build", "release", "meshflow")
    have = {o["name"] for o in json.loads(subprocess.check_output([program, "ops", "--json"]))}
    with open(os.path.join(ROOT, "src", "graph", "absent_ops.c"), "w", encoding="utf-8") as f:
        f.write(absent_text(have))


def main():
    if sys.argv[1:] == ["--absent"]:
        write_absent()
        return
    for name in sys.argv[1:]:
        op = op_def_registry.get(name)
        print("%s%s" % (name, def_text(op) if op else " is not registered"))


if __name__ == "__main__":
    main()
