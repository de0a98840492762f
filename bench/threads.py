#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How a training step scales with threads, ours and PyTorch's: samples/s, and efficiency (the rate divided by that of
one thread times the threads).

Usage: threads.py [PATTERN] [--threads 1,2,4,8,16] [--numerics CLASS] [--rounds N] [--json FILE]

PATTERN: models whose row contains it ("mlp B=128"). Numbers above the number of cores are left out. At the end, models
are named that became slower with more threads: whose median is below that of fewer threads by more than --slack (5 %).
Then the exit status is 1.
"""
import sys

import measure

CASES = [("mlp", 128), ("fashion-cnn", 128)]


def curve(model, batch, counts, a, torch):
    """A row for each number of threads. All are measured in each round."""
    kinds = {}
    for n in counts:
        kinds[n] = [measure.Ours(model, batch, "fp32", n, a.numerics)]
        kinds[n] += measure.peers(model, batch, "fp32", n, torch, with_tf=False)
    found = {n: {t.name: [] for t in kinds[n]} for n in counts}
    for _ in range(a.rounds):
        for n in counts:
            for t in kinds[n]:
                found[n][t.name].append(t.rate())
    for n in counts:
        for t in kinds[n]:
            t.close()
    return [row(model, batch, n, found, min(counts)) for n in counts]


def row(model, batch, n, found, fewest):
    """Of PyTorch's variants the best, with this number of threads and with the fewest."""
    def rate_of(count):
        best = measure.best_of(found[count])
        return best, measure.summary(found[count][best]) if best else None
    mine, alone = measure.summary(found[n]["meshflow"]), measure.summary(found[fewest]["meshflow"])
    (best, theirs), (_, theirs_alone) = rate_of(n), rate_of(fewest)

    def efficiency(rate, one):
        return rate["median"] * fewest / (one["median"] * n)
    r = {"model": model, "batch": batch, "threads": n, "ours": mine, "efficiency": efficiency(mine, alone), "best": best,
         "peer": theirs, "peer_efficiency": efficiency(theirs, theirs_alone) if best else None,
         "peers": {k: measure.summary(v) for k, v in found[n].items() if k != "meshflow"},
         "ratio": mine["median"] / theirs["median"] if best else None}
    print("%-12s %-6s %7d %10.0f %10s %10.2f %12s %10s %6s" % (
        model, "B=%d" % batch, n, mine["median"], "%.0f" % theirs["median"] if best else "-", r["efficiency"],
        "%.2f" % r["peer_efficiency"] if best else "-", best.split()[-1] if best else "-",
        "%.2f" % r["ratio"] if best else "-"), flush=True)
    return r


def slower(rows, slack):
    """Sentences on rows that are slower than a row of the same model with fewer threads."""
    found = []
    for r in rows:
        fewer = [q for q in rows if q["model"] == r["model"] and q["threads"] < r["threads"]]
        q = max(fewer, key=lambda q: q["ours"]["median"], default=None)
        if q and r["ours"]["median"] < (1 - slack) * q["ours"]["median"]:
            found.append("%s B=%d: %.0f samples/s with %d threads, %.0f with %d" % (
                r["model"], r["batch"], r["ours"]["median"], r["threads"], q["ours"]["median"], q["threads"]))
    return found


def main():
    p = measure.options("a training step with 1 to 16 threads")
    p.add_argument("--threads", default="1,2,4,8,16", help="the numbers of threads")
    p.add_argument("--slack", type=float, default=0.05)
    a = p.parse_args()
    cores = measure.usable_threads()
    wanted = sorted(int(n) for n in a.threads.split(","))
    counts = [n for n in wanted if n <= cores] or wanted[:1]
    measure.print_machine(a.numerics, measure.peak_of(max(counts)))
    if counts != wanted:
        print("# not measured with %d cores: %s threads" % (cores, ", ".join(str(n) for n in wanted if n not in counts)))
    torch = measure.torch_python()
    print("%-12s %-6s %7s %10s %10s %10s %12s %10s %6s" % (
        "model", "size", "threads", "ours", "PyTorch", "efficiency", "of PyTorch", "best", "ratio"))
    rows = []
    for model, batch in CASES:
        if a.pattern in "%s B=%d" % (model, batch):
            rows += curve(model, batch, counts, a, torch)
    worse = slower(rows, a.slack)
    print("\n".join("# SLOWER with more threads: %s" % w for w in worse) or "# no model became slower with more threads")
    measure.write_json(a.json, rows, numerics=a.numerics, slower=worse)
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
