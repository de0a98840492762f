#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The mesh against other implementations: the same programs under the same layouts.

Usage: build/venv-jax/bin/python tests/mesh/compare.py jax [PATTERN]
       build/venv-mtf/bin/python tests/mesh/compare.py mtf [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Numbers must equal the peer's to 1e-5, under the same layout
and on one device; and at most as many bytes are sent as by XLA's partitioner. To compare reductions, direct exchange of
small sums is disabled here.
"""
import os
import sys

os.environ.setdefault("MESHFLOW_MESH_DIRECT_REDUCE_ELEMENTS", "0")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np  # noqa: E402

import ours  # noqa: E402
import programs  # noqa: E402

TOLERANCE = 1e-5


def distance(a, b):
    """The most by which results differ, and where; NaN is far from everything."""
    worst = 0.0, ""
    for name in b:
        d = np.abs(a[name] - b[name]) / (1 + np.abs(b[name]))
        d = float(np.max(np.where(np.isnan(d), np.inf, d))) if d.size else 0.0
        worst = max(worst, (d, name))
    return worst


def results(make):
    run = make()
    run.step()
    return run, run.results()


def compare(peer, kind, mesh, layout):
    """Error messages and remarks."""
    wrong, remarks = [], []
    _, one = results(lambda: peer.Run(kind(), "one:1", ""))
    their_run, theirs = results(lambda: peer.Run(kind(), mesh, layout))
    with ours.Run(kind(), mesh, layout) as run:
        moved, _ = run.bytes()
        got = run.results()
    for what, want in ("on one device", one), ("under this layout", theirs):
        d, where = distance(got, want)
        own, _ = distance(theirs, one)
        if d <= TOLERANCE:
            remarks.append("%.1e from %s %s" % (d, peer.NAME, what))
        elif want is theirs and own > TOLERANCE:
            remarks.append("%s is %.1e away from itself on one device" % (peer.NAME, own))
        else:
            wrong.append("%s is %.1e from %s's %s" % (where, d, peer.NAME, what))
    if hasattr(their_run, "bytes"):
        bytes_, _ = their_run.bytes()
        remarks.append("%d bytes, %d of %s" % (moved, bytes_, peer.NAME))
        if moved > bytes_:
            wrong.append("%d bytes move, %d of %s" % (moved, bytes_, peer.NAME))
    return wrong, remarks


def main():
    if sys.argv[1] == "jax":
        import jax_programs as peer
    else:
        import mtf_programs as peer
    pattern = sys.argv[2] if len(sys.argv) > 2 else ""
    passed = failed = skipped = 0
    for kind in programs.ALL:
        for mesh, layout in kind.layouts:
            name = "%s on %s under %s" % (kind.__name__, mesh, layout)
            if pattern not in name:
                continue
            why = peer.refuses(kind(), layout)
            wrong, remarks = ([], []) if why else compare(peer, kind, mesh, layout)
            number = passed + failed + skipped + 1
            print("%s %d - %s%s" % ("not ok" if wrong else "ok", number, name,
                                    " # SKIP %s: %s" % (peer.NAME, why) if why else ""))
            for line in wrong + remarks:
                print("# " + line, flush=True)
            passed += not wrong and not why
            failed += bool(wrong)
            skipped += bool(why)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
