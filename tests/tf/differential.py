# SPDX-License-Identifier: Apache-2.0
"""Every op against TensorFlow: its samples, and cases derived from them by changing types, shapes,
attributes and values."""
import itertools
import zlib

import numpy as np
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import op_def_registry

import cases
import differences
import generate
import oracle


def generator(seed, name, index=0):
    return np.random.default_rng([seed, zlib.crc32(name.encode()), index])


class Report:
    """What happened to one op."""

    def __init__(self, name):
        self.name = name  # lacking: types TensorFlow has no kernel for; missing: we have none
        self.failures, self.types, self.lacking, self.missing = [], set(), set(), set()
        self.compared = self.refused = self.no_kernel = self.not_compared = 0
        self.samples = 0
        self.tolerance = 0.0

    def fail(self, case, what):
        self.failures.append("%s \"%s\": %s" % (self.name, case, what))


def steps(built):
    out = []
    if built.init:
        out.append(([], {}, ["init"]))
    out.append((built.fetches, built.feeds, [] if built.fetches else ["op"]))
    if built.after:
        out.append((built.after, {}, []))
    return out


def type_of(case, built):
    """The type a case counts for in the coverage table."""
    for i in case.inputs:
        if i.literal is None or i.variable:
            return i.dtype
    return built.types[0] % 100 if built.types else case.inputs[0].dtype if case.inputs else 0


def compare(case, index, seed, report, is_sample, progress):
    """One case on both sides."""
    text = case.text()
    rng = generator(seed, "values of " + case.op, index)
    try:
        built = cases.build(case, rng, not is_sample and bool(rng.integers(2)))
    except (ValueError, KeyError, TypeError, OverflowError) as e:
        if is_sample and not case.fails:
            report.fail(text, "cannot be built: %s" % e)
        return
    say = lambda side: progress("%s %s \"%s\"" % (side, case.op, text), index, report)
    both = run_both(built, say)
    failed = [isinstance(x, oracle.Failure) for x in both]
    if (case.fails and not failed[1]) or failed[0] != failed[1]:
        # Some shape functions insist on known ranks; some only refuse what they know.
        if not oracle.no_kernel(both[1]):
            built = cases.Built(case, built.values, not built.shapes)
            both = run_both(built, say)
    judge(case, built, *both, report, is_sample, text)


def run_both(built, say):
    """(ours, theirs)"""
    todo = steps(built)
    say("meshflow")
    ours = oracle.run_mf(built.graph.SerializeToString(), todo)
    say("tensorflow")
    return ours, oracle.run_tf(oracle.tf_graph(built.graph), todo)


def judge(case, built, ours, theirs, report, is_sample, text):
    failed = isinstance(ours, oracle.Failure), isinstance(theirs, oracle.Failure)
    if oracle.no_kernel(theirs):
        report.no_kernel += 1
        if not failed[0]:
            report.lacking.add(type_of(case, built))
        return
    if case.fails:
        if not failed[1]:
            report.fail(text, "must fail, but TensorFlow has an answer")
        elif not failed[0]:
            report.fail(text, "must fail, but has an answer")
        elif (ours.name != theirs.name and
              differences.STATUS.get(case.op) != (ours.name, theirs.name)):
            report.fail(text, "fails with %r, TensorFlow with %r" % (ours, theirs))
        report.refused += 1
        return
    if failed[0] and not failed[1] and "has no kernel for type" in ours.message:
        report.missing.add(type_of(case, built))
        return
    if failed[0] != failed[1] and not is_sample and differences.refused(
            case.op, *[x if f else None for x, f in zip((ours, theirs), failed)]):
        report.refused += 1
        return
    if failed[0] != failed[1]:
        report.fail(text, "%s; TensorFlow: %s" % (
            ours if failed[0] else "has an answer", theirs if failed[1] else "has an answer"))
        return
    if failed[0]:
        report.refused += 1
        return
    what = unequal(case, built, ours, theirs)
    if what and any(t in WIDER for t in map(dtype_of, built.values)):
        what = unequal(case, built, ours, in_wider_type(case, built)) and what
    if what:
        report.fail(text, what)
        return
    report.compared += 1
    report.types.add(type_of(case, built))
    report.tolerance = max(report.tolerance, case.tolerance or 0)


def unequal(case, built, ours, theirs):
    """"" when all outputs of all steps are equal, else which is not."""
    if isinstance(theirs, oracle.Failure):
        return repr(theirs)
    skip = differences.wrong(case)
    for a_step, b_step in zip(ours, theirs):
        for k, (a, b) in enumerate(zip(a_step, b_step)):
            if k in differences.UP_TO_PHASE.get(case.op, ()) and a.shape == b.shape and b.ndim > 1:
                a, b = differences.in_phase(a, b, b_step[0].shape[-1])
            what = "" if k in skip else difference(case, built, a, b)
            if what:
                return "output %d: %s" % (k, what)
    return ""


# ---- where TensorFlow's rounding errors are the larger ones, its answer in a wider type decides ----

WIDER = {1: 2, 8: 18, 14: 1, 19: 1}


def dtype_of(array):
    return next((t for t, n in cases.NUMPY.items() if array.dtype == n), 0)


def in_wider_type(case, built):
    """TensorFlow's answer to the same values in the next wider type, rounded once."""
    wide = case.copy()
    for i in wide.inputs:
        i.dtype = WIDER.get(i.dtype, i.dtype)
    wide.attrs = {k: attr_value_pb2.AttrValue(type=WIDER[v.type]) if v.type in WIDER else v
                  for k, v in wide.attrs.items()}
    values = [v.astype(cases.NUMPY[i.dtype]) for v, i in zip(built.values, wide.inputs)]
    other = cases.Built(wide, values, built.shapes)
    answer = oracle.run_tf(oracle.tf_graph(other.graph), steps(other))
    if isinstance(answer, oracle.Failure):
        return answer
    types = [built.types[int(f.partition(":")[2])] % 100 for f in built.fetches]
    read = [i.dtype for i in case.inputs if i.variable]
    of_step = ([[]] if built.init else []) + [types] + ([read] if built.after else [])
    with np.errstate(over="ignore"):
        return [[x.astype(cases.NUMPY[t]) if t in WIDER else x for x, t in zip(step, step_types)]
                for step, step_types in zip(answer, of_step)]


# ---- all cases of an op ----

def terms(built, output):
    """About how many numbers are added up for one element: exact for reductions and products."""
    sizes = [v.size for v in built.values if v.dtype.kind not in "OSU"]
    n = max(1, output.size)
    if differences.HANGS_ON_ALL.fullmatch(built.case.op):
        return 8
    return max(max(sizes, default=1) / n, np.sqrt(np.prod([float(s) for s in sizes[:2]]) / n))


def difference(case, built, a, b):
    if case.unordered:
        same = a.shape == b.shape and (a.dtype == b.dtype or b.dtype.kind in "OSU")
        return "" if same else "%s%s, TensorFlow has %s%s" % (a.dtype, a.shape, b.dtype, b.shape)
    return oracle.close(a, b, case.tolerance, terms(built, b))


def check(op, seed, generated, start, progress):
    """Cases from `start` on of one op: its samples, then generated ones. progress(what, index, report) is
    called before each run."""
    report = Report(op.name)
    if op_def_registry.get(op.name) is None or op.name in differences.NOT_COMPARED:
        return report
    bases = []
    for index, text in enumerate(op.samples):
        try:
            case = cases.parse(op.name, text)
        except (ValueError, KeyError) as e:
            report.fail(text, "cannot be read: %s" % e)
            continue
        if not case.fails and not case.no_tf:
            bases.append(case)
        if index < start:
            continue
        report.samples += 1
        if case.no_tf:
            report.not_compared += 1
            continue
        compare(case, index, seed, report, True, progress)
    if not bases or generated == 0:
        return report
    derived = itertools.chain(generate.systematic(bases),
                              (generate.random_case(bases, generator(seed, op.name, i))
                               for i in range(generated)))
    for index, case in enumerate(derived, len(op.samples)):
        if case and index >= start:
            compare(case, index, seed, report, False, progress)
    return report
