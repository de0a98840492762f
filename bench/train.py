#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training against TensorFlow and, if it is installed, PyTorch: steps, startup, memory, time to an accuracy. One row each:
subject, size, Meshflow, the best peer, ratio (above 1: Meshflow is better).

Usage: train.py [PATTERN]     MESHFLOW: the program (build/meshflow)

Rounds alternate between Meshflow and the peers; medians are compared. A peer is a separate process that keeps its model
and measures on request.
"""
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
MESHFLOW = os.environ.get("MESHFLOW", os.path.join(ROOT, "build", "meshflow"))
ROUNDS = 5
CASES = [("fashion-cnn", 128, "fp32"), ("fashion-cnn", 32, "fp32"), ("fashion-cnn", 8, "fp32"),
         ("fashion-cnn", 128, "bf16"), ("mlp", 32, "fp32"), ("mlp", 128, "fp32")]


def row(subject, size, ours, peer, unit, ratio, note=""):
    print("%-22s %-12s %12s %12s %-10s %6.2f  %s" % (subject, size, ours, peer, unit, ratio, note),
          flush=True)


class Peer:
    """A worker process: `peer_tf.py MODEL BATCH PRECISION VARIANT`, which answers a line with a rate."""

    def __init__(self, python, script, *args):
        self.name = "%s %s" % (os.path.basename(script)[5:-3], args[-1])
        env = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3")
        self.p = subprocess.Popen([python, os.path.join(HERE, script), *args], env=env, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
        if self.p.stdout.readline().strip() != "ready":
            self.p.kill()
            raise RuntimeError("%s does not start" % self.name)

    def rate(self):
        self.p.stdin.write("go\n")
        self.p.stdin.flush()
        return float(self.p.stdout.readline())

    def close(self):
        self.p.stdin.close()
        self.p.wait()


def peers(model, batch, precision):
    found = []
    tf, torch = (os.path.join(ROOT, "build", v, "bin", "python") for v in ("venv", "venv-torch"))
    wanted = [(tf, "peer_tf.py", v) for v in ("session", "xla")]
    wanted += [(torch, "peer_torch.py", v) for v in ("eager", "channels_last")]
    for python, script, variant in wanted:
        if not os.path.exists(python):
            continue
        try:
            found.append(Peer(python, script, model, str(batch), precision, variant))
        except RuntimeError as e:
            print("# %s" % e)
    return found


def our_rate(model, batch, precision):
    out = subprocess.run([MESHFLOW, "bench", "step", "--model", model, "--batch", str(batch),
                          "--precision", precision, "--json"], capture_output=True, text=True,
                         check=True).stdout
    return json.loads(out)["samples_per_second"]


def steps():
    for model, batch, precision in CASES:
        them = peers(model, batch, precision)
        ours, theirs = [], {p.name: [] for p in them}
        for _ in range(ROUNDS):
            ours.append(our_rate(model, batch, precision))
            for p in them:
                theirs[p.name].append(p.rate())
        for p in them:
            p.close()
        mine = statistics.median(ours)
        best = max(theirs, key=lambda n: statistics.median(theirs[n]))
        peer = statistics.median(theirs[best])
        others = ", ".join("%s %.0f" % (n, statistics.median(r)) for n, r in theirs.items())
        row("step %s" % model, "B=%d %s" % (batch, precision), "%.0f" % mine, "%.0f" % peer,
            "samples/s", mine / peer, "best: %s (%s); ours %.0f..%.0f" %
            (best, others, min(ours), max(ours)))


def spawn(command):
    """Runs it; its wall time and peak memory."""
    begin = time.perf_counter()
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    out = p.stdout.read()
    _, _, usage = os.wait4(p.pid, 0)
    p.returncode = 0
    return time.perf_counter() - begin, usage.ru_maxrss * 1024, out


def start():
    ours, memory = [], []
    for _ in range(ROUNDS):
        _, _, out = spawn([MESHFLOW, "train", "--model", "fashion-cnn", "--data", "fashion-mnist",
                           "--batch", "128", "--steps", "1", "--no-test", "--quiet", "--json"])
        told = json.loads(out)
        ours.append(told["start_to_first_step_seconds"])
        memory.append(told["peak_rss_bytes"])
    python = os.path.join(ROOT, "build", "venv", "bin", "python")
    theirs = [spawn([python, os.path.join(HERE, "peer_tf.py"), "fashion-cnn", "128", "fp32", "first"])
              for _ in range(3)]
    mine, peer = statistics.median(ours), statistics.median(t[0] for t in theirs)
    row("start to first step", "fashion-cnn", "%.3f" % mine, "%.3f" % peer, "s", peer / mine,
        "data included in ours")
    mine, peer = statistics.median(memory), statistics.median(t[1] for t in theirs)
    row("memory", "fashion-cnn", "%.0f" % (mine / 1e6), "%.0f" % (peer / 1e6), "MB", peer / mine,
        "data included in ours")


def accuracy():
    """Time from the start of the process until 91 % of the test set; the same net and recipe."""
    recipe = dict(epochs=6, batch=128, rate=0.05)
    begin = time.perf_counter()
    p = subprocess.Popen([MESHFLOW, "train", "--model", "fashion-cnn", "--data", "fashion-mnist",
                          "--optimizer", "momentum", "--batch", str(recipe["batch"]), "--lr",
                          str(recipe["rate"]), "--schedule", "one_cycle", "--epochs",
                          str(recipe["epochs"]), "--quiet", "--json"], stdout=subprocess.PIPE, text=True)
    told = json.loads(p.stdout.read().splitlines()[-1])
    p.wait()
    mine = time.perf_counter() - begin
    python = os.path.join(ROOT, "build", "venv", "bin", "python")
    begin = time.perf_counter()
    out = subprocess.run([python, os.path.join(HERE, "peer_tf.py"), "fashion-cnn",
                          str(recipe["batch"]), "fp32", "train", str(recipe["epochs"]),
                          str(recipe["rate"])], capture_output=True, text=True).stdout
    peer = time.perf_counter() - begin
    row("time of a training", "fashion-cnn", "%.1f" % mine, "%.1f" % peer, "s", peer / mine,
        "%d epochs; accuracy ours %.4f, theirs %s" %
        (recipe["epochs"], told["accuracy"], out.strip().splitlines()[-1] if out.strip() else "?"))


SUBJECTS = [steps, start, accuracy]


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    print("# load %s" % " ".join("%.2f" % x for x in os.getloadavg()))
    print("%-22s %-12s %12s %12s %-10s %6s" % ("subject", "size", "ours", "peer", "unit", "ratio"))
    for fn in SUBJECTS:
        if pattern in fn.__name__:
            fn()


if __name__ == "__main__":
    main()
