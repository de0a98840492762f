# SPDX-License-Identifier: Apache-2.0
"""The table of ops in docs/reference/ops.md, from the outcomes of a run (run.py --table docs/reference/ops.md), and the check
that it lists the ops there are."""
import os
import re

import differences
import oplist

PATH = os.path.join(oplist.ROOT, "docs", "reference", "ops.md")
TIERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ops_tiers.txt")
ORDER = [2, 1, 19, 14, 6, 5, 3, 9, 4, 17, 22, 23, 10, 8, 18, 7, 20, 21, 11, 12, 15, 16, 13]
NAMES = {1: "f32", 2: "f64", 3: "i32", 4: "u8", 5: "i16", 6: "i8", 7: "str", 8: "c64", 9: "i64",
         10: "bool", 14: "bf16", 17: "u16", 18: "c128", 19: "f16", 20: "resource", 21: "variant",
         22: "u32", 23: "u64", 11: "qi8", 12: "qu8", 13: "qi32", 15: "qi16", 16: "qu16"}


def tiers():
    out, tier = {}, None
    with open(TIERS, encoding="utf-8") as f:
        for line in map(str.strip, f):
            if line.startswith("["):
                tier = line[1:-1]
            elif line and not line.startswith("#"):
                out[line] = tier
    return out


def _types(numbers):
    return " ".join(NAMES[t] for t in ORDER if t in numbers)


def _row(op, forward, gradient, tier):
    if op.gradient == "none":
        grad = "stops"
    elif op.gradient == "missing":
        grad = "none"
    else:
        grad = "yes, %d" % gradient.get("compared", 0) if gradient.get("compared") else "yes"
    return "| %s | %s | %s | %s | %s | %s | %d | %s |" % (
        op.name, tier or "", _types(forward.get("types", ())), _types(forward.get("lacking", ())),
        _types(forward.get("missing", ())), grad, len(op.samples),
        "%g" % forward["tolerance"] if forward.get("tolerance") else "")


def special_lines(have):
    """Where answers to NaN and infinities differ."""
    lines = ["", "## NaN and infinities", "",
             "Every op is also compared with NaN and infinities among its inputs. `build/venv/bin/python "
             "tests/tf/run.py --filter 'op TopKV2'` does it for one op. These ops give other answers than "
             "TensorFlow:", "",
             "| ops | values | why |", "|---|---|---|"]
    return lines + ["| %s | %s | %s |" % (", ".join(n for n in sorted(have) if re.fullmatch(pattern, n)),
                                          " and ".join(values.split()), why)
                    for pattern, values, why in differences.NOT_SPECIAL]


def write(path, results):
    forward = {u["name"]: r for u, r in results if u["kind"] == "op"}
    gradient = {u["name"]: r for u, r in results if u["kind"] == "gradient"}
    graphs = sum(r.get("compared", 0) for u, r in results if u["kind"] == "graphs")
    by_tier, ops = tiers(), oplist.ops()
    have = {o.name for o in ops}
    lines = [
        "<!-- SPDX-License-Identifier: Apache-2.0 -->",
        "<!-- Written by tests/tf/run.py --table; do not edit. -->",
        "# Ops compared with TensorFlow 2.21", "",
        "Meshflow has %d ops. The run that wrote this page compared %d results of single ops, %d gradients and"
        " %d random graphs with TensorFlow. All agree:" % (
            len(ops), sum(r.get("compared", 0) for r in forward.values()),
            sum(r.get("compared", 0) for r in gradient.values()), graphs),
        "",
        "- Integers, strings and data movement are equal exactly.",
        "- f64 is within 1e-12 of the magnitude, f32 within 1e-5, f16 within 2e-3, bf16 within 2e-2, unless "
        "the last column has another tolerance.",
        "",
        "`meshflow ops NAME` prints types and attributes of one op. *Tiers*: 1 trains dense models on a "
        "parameter-server cluster, 2 is the rest of distributed training, 3 is further ops that programs use "
        "often, TF2 is eager execution. *Here*: the ops that Meshflow has.",
        "",
        "| tier | ops | here |", "|---|---|---|"]
    for tier in sorted(set(by_tier.values())):
        names = [n for n, t in by_tier.items() if t == tier]
        lines.append("| %s | %d | %d |" % (tier, len(names), sum(n in have for n in names)))
    lines.append("| other | %d | %d |" % ((sum(o.name not in by_tier for o in ops),) * 2))
    lines += ["",
              "Columns of the next table:",
              "",
              "- *equal*: types whose answers were compared.",
              "- *only here*: types for which TensorFlow has no CPU kernel.",
              "- *only TensorFlow*: types that Meshflow does not support.",
              "- *gradient*: `yes, N`: N gradients were compared; `stops`: no gradient flows through the op; `none`: "
              "neither TensorFlow nor Meshflow has a gradient.",
              "- *samples*: number of test inputs. Ops without samples are tested in `tests/unit`.",
              "",
              "A graph may contain other ops of TensorFlow: Meshflow knows their signatures and loads the "
              "graph. A run that reaches such an op fails with UNIMPLEMENTED and names op and node. `meshflow "
              "graph check GRAPH` lists them.",
              "",
              "| op | tier | equal | only here | only TensorFlow | gradient | samples | tolerance |",
              "|---|---|---|---|---|---|---|---|"]
    for op in ops:
        lines.append(_row(op, forward.get(op.name, {}), gradient.get(op.name, {}),
                          by_tier.get(op.name)))
    for tier in sorted(set(by_tier.values())):
        names = [n for n, t in by_tier.items() if t == tier and n not in have]
        if names:
            lines += ["", "## Tier %s: missing ops" % tier, "", ", ".join(names)]
    lines += special_lines(have)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")


def stale():
    """Differences between the table in docs/ and the existing ops."""
    if not os.path.exists(PATH):
        return ["docs/reference/ops.md is missing: tests/tf/run.py --soak --table docs/reference/ops.md writes it"]
    with open(PATH, encoding="utf-8") as f:
        listed = set(re.findall(r"^\| (\w+) \|(?:[^|]*\|){7}$", f.read(), re.M)) - {"op"}
    have = {o.name for o in oplist.ops()}
    if listed == have:
        return []
    return ["docs/reference/ops.md lacks %s; has too many: %s (run.py --soak --table docs/reference/ops.md writes it)" % (
        sorted(have - listed), sorted(listed - have))]
