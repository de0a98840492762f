#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training against TensorFlow and PyTorch, if they are installed: steps, startup, memory, time to an accuracy. One row each:
subject, size, Meshflow, the best peer, ratio (above 1: Meshflow is better), shares of the processor's peak.

Usage: train.py [PATTERN] [--threads N] [--numerics CLASS] [--rounds N] [--json FILE]

PATTERN: rows whose name contains it ("steps", "steps mlp", "B=128 bf16", "start", "accuracy"). Rounds alternate between
Meshflow and the peers; medians are compared. Peers use as many threads as Meshflow, by default all cores, and each of
their variants is measured: TensorFlow's session and XLA; PyTorch's eager mode, channels_last, and torch.compile if there
is a C++ compiler. A share is the rate times the operations of products and convolutions, divided by the peak of `peak`.
"""
import json
import os
import statistics
import subprocess
import time

import measure

CASES = [("fashion-cnn", 128, "fp32"), ("fashion-cnn", 32, "fp32"), ("fashion-cnn", 8, "fp32"),
         ("fashion-cnn", 128, "bf16"), ("mlp", 32, "fp32"), ("mlp", 128, "fp32"), ("resnet20", 128, "fp32"),
         ("transformer", 32, "fp32"), ("lstm", 32, "fp32")]


def print_row(subject, size, ours, peer, unit, ratio, note=""):
    print("%-22s %-12s %12s %12s %-10s %6s  %s" % (subject, size, ours, peer, unit, ratio, note), flush=True)


def percent(rate, flops, peak):
    return "%.1f%%" % (100e-9 * rate * flops / peak) if peak else "?"


def step(case, a, peak, torch):
    model, batch, precision = case
    ours = measure.Ours(model, batch, precision, a.threads, a.numerics)
    found = measure.rates([ours] + measure.peers(model, batch, precision, a.threads, torch), a.rounds)
    best = measure.best_of(found)
    mine = measure.summary(found[ours.name])
    theirs = {n: measure.summary(r) for n, r in found.items() if n != ours.name}
    peer = theirs[best]["median"] if best else None
    top = peak.get(precision)
    note = "share %s%s; ours %.0f..%.0f" % (percent(mine["median"], ours.flops, top),
                                           ", peer %s" % percent(peer, ours.flops, top) if best else "",
                                           mine["min"], mine["max"])
    for n in theirs:
        note += "; %s%s %.0f (%.0f..%.0f)" % ("best: " if n == best else "", n, *(theirs[n][k] for k in ("median", "min", "max")))
    print_row("step %s" % model, "B=%d %s" % (batch, precision), "%.0f" % mine["median"], "%.0f" % peer if best else "-",
              "samples/s", "%.2f" % (mine["median"] / peer) if best else "-", note)
    return {"subject": "step", "model": model, "batch": batch, "precision": precision, "unit": "samples/s",
            "threads": a.threads, "flops_per_sample": ours.flops, "peak_gflops": top, "ours": mine, "peers": theirs,
            "best": best, "ratio": mine["median"] / peer if best else None, "load": measure.load()}


def steps(a, peak, save):
    """save: called with the rows after each, because a part of machine.sh may be ended."""
    cases = [c for c in CASES if a.pattern in "steps %s B=%d %s" % c]
    torch = measure.torch_python() if cases else None
    if cases and not torch:
        print("# without PyTorch: no Python has it; TORCH_PYTHON names one")
    rows = []
    for c in cases:
        rows.append(step(c, a, peak, torch))
        save(rows)
    return rows


# ---- whole trainings, against TensorFlow; they need its package and Fashion-MNIST ----

def spawn(command):
    """Runs it; its wall time, peak memory and output."""
    begin = time.perf_counter()
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    out = p.stdout.read()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode != 0:
        raise RuntimeError("%s ended with %d" % (" ".join(command), p.returncode))
    return time.perf_counter() - begin, usage.ru_maxrss * 1024, out


def tensorflow(*args):
    return spawn([measure.TF_PYTHON, os.path.join(measure.HERE, "peer_tf.py"), *args])


def smaller_is_better(subject, mine, peer, unit, digits, note):
    print_row(subject, "fashion-cnn", "%.*f" % (digits, mine), "%.*f" % (digits, peer), unit, "%.2f" % (peer / mine), note)
    return {"subject": subject, "model": "fashion-cnn", "unit": unit, "ours": mine, "peer": peer, "ratio": peer / mine}


def start(a):
    ours = []
    for _ in range(a.rounds):
        out = spawn([measure.MESHFLOW, "train", "--model", "fashion-cnn", "--data", "fashion-mnist", "--batch", "128",
                     "--steps", "1", "--threads", str(a.threads), "--no-test", "--quiet", "--json"])[2]
        ours.append(json.loads(out))
    theirs = [tensorflow("fashion-cnn", "128", "fp32", "first", str(a.threads)) for _ in range(3)]
    seconds = [statistics.median(o["start_to_first_step_seconds"] for o in ours), statistics.median(t[0] for t in theirs)]
    memory = [statistics.median(o["peak_rss_bytes"] for o in ours) / 1e6, statistics.median(t[1] for t in theirs) / 1e6]
    return [smaller_is_better("start to first step", *seconds, "s", 3, "data included in ours"),
            smaller_is_better("memory", *memory, "MB", 0, "data included in ours")]


def accuracy(a):
    """Time from the start of the process until 91 % of the test set; the same net and recipe."""
    epochs, batch, rate = "6", "128", "0.05"
    mine, _, out = spawn([measure.MESHFLOW, "train", "--model", "fashion-cnn", "--data", "fashion-mnist", "--optimizer",
                          "momentum", "--batch", batch, "--lr", rate, "--schedule", "one_cycle", "--epochs", epochs,
                          "--threads", str(a.threads), "--quiet", "--json"])
    peer, _, theirs = tensorflow("fashion-cnn", batch, "fp32", "train", str(a.threads), epochs, rate)
    return [smaller_is_better("time of a training", mine, peer, "s", 1, "%s epochs; accuracy ours %.4f, theirs %s" % (
        epochs, json.loads(out.splitlines()[-1])["accuracy"], theirs.strip().splitlines()[-1]))]


def main():
    p = measure.options("training steps and trainings against peers")
    p.add_argument("--threads", type=int, help="of Meshflow and of the peers; default: the cores")
    a = p.parse_args()
    a.threads = a.threads or measure.usable_threads()
    peak = measure.peak_of(a.threads)
    measure.print_machine(a.numerics, peak)
    print("%-22s %-12s %12s %12s %-10s %6s" % ("subject", "size", "ours", "peer", "unit", "ratio"))

    def save(rows):
        measure.write_json(a.json, rows, numerics=a.numerics, peak=peak)
    rows = steps(a, peak, save)
    for subject in (start, accuracy):
        if a.pattern in subject.__name__:
            if os.path.exists(measure.TF_PYTHON):
                rows += subject(a)
            else:
                print("# without %s: TensorFlow is not in build/venv" % subject.__name__)
    save(rows)


if __name__ == "__main__":
    main()
