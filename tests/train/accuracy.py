#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Accuracy of the models of the zoo: a recipe and a threshold for each. Part of `make soak`.

Usage: accuracy.py PROGRAM [--seeds N] [--long] [PATTERN]
       accuracy.py --strategies PROGRAM [PATTERN]      fashion-cnn with every strategy
       accuracy.py --compress PROGRAM [PATTERN]        fashion-cnn with every compression method
       accuracy.py --bars      the table of docs/reference/models.md

PATTERN: the recipe of that name, otherwise those whose name contains it. --seeds N: uses the mean over seeds 1 to N. --long:
includes recipes that take an hour. Prints TAP lines with the accuracies and, last, `N passed, N failed, N skipped`.
docs/guides/training.md has the figures.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time

FASHION = ["--data", "fashion-mnist", "--batch", "128"]
SHOWN = "verification", "recall_at_1"  # by `meshflow contrast`, of what has been trained
LOWER = "reconstruction_error",  # is better
# name: model, arguments, metric, bar, takes long
RECIPES = {
    "fashion-cnn": (["--model", "fashion-cnn", *FASHION, "--epochs", "5", "--optimizer", "momentum",
                     "--lr", "0.06", "--schedule", "one_cycle"], "accuracy", 0.91, False),
    "cnn": (["--model", "cnn", *FASHION, "--epochs", "8", "--optimizer", "momentum", "--lr", "0.06",
             "--schedule", "one_cycle", "--augment", "flip=true"], "accuracy", 0.916, False),
    "cnn-small": (["--model", "cnn-small", *FASHION, "--epochs", "14", "--optimizer",
                   "adam", "--lr", "0.004", "--schedule", "one_cycle", "--augment", "flip=true"],
                  "accuracy", 0.925, False),
    "resnet20": (["--model", "resnet20", *FASHION, "--epochs", "30", "--optimizer",
                  "momentum nesterov=true", "--lr", "0.15", "--schedule", "one_cycle",
                  "--weight-decay", "0.0005", "--augment", "flip=true crop=2"], "accuracy", 0.935, True),
    "siamese": (["--model", "siamese", *FASHION, "--pairs", "rotate=20 crop=3", "--epochs", "6",
                 "--optimizer", "adam", "--lr", "0.002", "--schedule", "one_cycle"], "verification", 0.95, False),
    "triplet": (["--model", "triplet", *FASHION, "--epochs", "6", "--optimizer", "adam", "--lr", "0.002",
                 "--schedule", "one_cycle"], "recall_at_1", 0.88, False),
    "rbm": (["--model", "rbm", *FASHION, "--epochs", "5", "--lr", "0.1"], "reconstruction_error", 0.02, False),
    "lstm": (["--model", "lstm vocabulary=64", "--data", "synthetic-sequence", "--batch", "64",
              "--epochs", "8", "--optimizer", "adam", "--lr", "0.01", "--clip", "global_norm=1"],
             "accuracy", 0.95, False),
    "text-cnn": (["--model", "text-cnn vocabulary=256", "--data", "synthetic-text", "--batch", "64",
                  "--epochs", "2", "--optimizer", "adam"], "accuracy", 0.85, False),
    "transformer": (["--model", "transformer vocabulary=64", "--data", "synthetic-language", "--batch",
                     "64", "--epochs", "3", "--optimizer", "adam", "--lr", "0.003", "--schedule",
                     "one_cycle"], "accuracy", 0.444, False),
    "moe-transformer": (["--model", "moe-transformer vocabulary=64", "--data", "synthetic-language", "--batch",
                         "64", "--epochs", "3", "--optimizer", "adam", "--lr", "0.003", "--schedule",
                         "one_cycle"], "accuracy", 0.444, False),
    "wide-deep": (["--model", "wide-deep", "--data", "synthetic-ctr", "--batch", "64", "--epochs", "1",
                   "--optimizer", "adam"], "auc", 0.8, False),
    "faster-rcnn": (["--model", "faster-rcnn", "--data", "scenes", "--batch", "32", "--epochs", "3",
                     "--optimizer", "adam", "--lr", "0.003", "--schedule", "one_cycle"],
                    "mean_average_precision", 0.85, False),
}
# Every strategy and mode reaches the threshold of fashion-cnn. Asynchronous ones give slightly different results
# each time, so all get more epochs than the bar needs. Where several pushes or steps make one update,
# there are fewer updates: they get more epochs still.
MANY = {"--epochs": "8"}
FEWER_UPDATES = {"servers, 2 of 3": {"--epochs": "16"},
                 "servers, every 4 steps": {"--epochs": "24"}}
STRATEGIES = {  # workers, servers, strategy; 0 workers: one process
    "mirrored": (0, 0, "mirrored replicas=2"),
    "central_storage": (0, 0, "central_storage replicas=2"),
    "multi_worker_mirrored": (2, 0, "multi_worker_mirrored"),
    "reduce_to_one": (2, 0, "reduce_to_one"),
    "trimmed mean": (2, 0, "multi_worker_mirrored aggregation=trimmed_mean"),
    "local_sgd": (2, 0, "local_sgd period=8"),
    "servers, synchronous": (2, 1, "parameter_server"),
    "servers, asynchronous": (2, 1, "parameter_server mode=async"),
    "servers, bounded staleness": (2, 2, "parameter_server mode=semi staleness=2"),
    "servers, 2 of 3": (3, 1, "parameter_server mode=semi quorum=2"),
    "servers, every 4 steps": (2, 1, "parameter_server mode=async period=4"),
}
# The accuracy of the generating rule on the test part of a synthetic set, see docs/guides/data.md.
BEST = {"synthetic-sequence": 1.0, "synthetic-text": 1.0, "synthetic-language": 0.4453,
        "synthetic-ctr": 0.877}


def bars():
    """The rows of the table in docs/reference/models.md."""
    for name, (arguments, metric, bar, _) in RECIPES.items():
        data = arguments[arguments.index("--data") + 1]
        yield "| %s | %s | %s | %g | %s |" % (name, data, metric, bar, BEST.get(data, ""))


def chosen(pattern):
    """The recipe of that name, else those whose name contains it."""
    return [pattern] if pattern in RECIPES else [n for n in RECIPES if pattern in n]


def train(program, arguments, seed, launch=()):
    r = subprocess.run([program, *launch, "train", *arguments, "--seed", str(seed), "--quiet", "--json"],
                       capture_output=True, text=True)
    if r.returncode != 0:
        raise RuntimeError(r.stderr.strip())
    return json.loads([x for x in r.stdout.splitlines() if x.startswith("{")][-1])


def measure(program, arguments, seed, metric):
    if metric not in SHOWN:
        return train(program, arguments, seed)[metric]
    with tempfile.TemporaryDirectory() as out:
        train(program, [*arguments, "--out", out, "--no-test"], seed)
        about = [w for name in ("--model", "--data", "--pairs") if name in arguments
                 for w in (name, arguments[arguments.index(name) + 1])]
        r = subprocess.run([program, "contrast", *about, "--seed", str(seed), "--from", out, "--json"],
                           capture_output=True, text=True)
        if r.returncode != 0:
            raise RuntimeError(r.stderr.strip())
        return json.loads(r.stdout)[metric]


def train_by_many(program, name):
    workers, servers, strategy = STRATEGIES[name]
    launch = ["launch", "--workers", str(workers), *(["--ps", str(servers)] if servers else []), "--json",
              "--"] if workers else []
    recipe = list(RECIPES["fashion-cnn"][0])
    for option, value in {**MANY, **FEWER_UPDATES.get(name, {})}.items():
        recipe[recipe.index(option) + 1] = value
    return train(program, [*recipe, "--strategy", strategy], 1, launch)



# What `meshflow compress` makes of fashion-cnn, trained as above for 10 epochs: arguments, times smaller, points lost
# at most, times faster in inference and in a training step (None: not checked).
COMPRESSED = {
    "pruned, shared": (["--prune", "magnitude sparsity=0.9", "--share", "bits=5", "--epochs", "5"], 35, 0.3,
                       None, None),
    "int8": (["--quantize", "int8", "--epochs", "0"], 3.5, 0.3, 2.0, None),
    "int8, aware of it": (["--quantize", "int8 aware=true", "--epochs", "1", "--lr", "0.01"], 3.5, 0.3, 2.0,
                          None),
    "units": (["--prune", "units share=0.5", "--epochs", "3", "--lr", "0.03"], 3.5, 0.3, 1.5, 1.5),
    "low rank": (["--rank", "rank=16 layers=dense", "--rank", "rank=24 layers=conv2d_1", "--epochs", "2",
                  "--lr", "0.03"], 6, 0.3, 1.0, 1.1),
}


def compress(program, name, run):
    """Raises when a bar is missed; else what was reached."""
    arguments, smaller, lost, inference, step = COMPRESSED[name]
    r = subprocess.run([program, "compress", run, "--data", "fashion-mnist", *arguments, "--json"],
                       capture_output=True, text=True)
    if r.returncode != 0:
        raise RuntimeError(r.stderr.strip())
    got = json.loads(r.stdout)
    before, after = got["before"], got["after"]
    reached = {"smaller": (before["bytes"] / after["bytes"], smaller),
               "points": (100 * (after["accuracy"] - before["accuracy"]), -lost),
               "inference": (after["samples_per_second"] / before["samples_per_second"], inference),
               "step": (before["step_seconds"] / after["step_seconds"], step)}
    said = ", ".join("%s %.2f" % (k, v) + (" (bar %g)" % bar if bar is not None else "")
                     for k, (v, bar) in reached.items())
    if any(bar is not None and v < bar for v, bar in reached.values()):
        raise RuntimeError(said)
    return said


def compress_all(program, pattern):
    """fashion-cnn, trained once, and made smaller in each way."""
    passed = failed = 0
    with tempfile.TemporaryDirectory() as work:
        recipe = list(RECIPES["fashion-cnn"][0])
        recipe[recipe.index("--epochs") + 1] = "10"
        subprocess.run([program, "train", *recipe, "--seed", "1", "--quiet", "--out", work], check=True,
                       stdout=subprocess.DEVNULL)
        for name in COMPRESSED:
            if pattern not in name:
                continue
            begin = time.monotonic()
            try:
                ok, said = True, compress(program, name, work)
            except RuntimeError as e:
                ok, said = False, str(e)
            passed, failed = passed + ok, failed + (not ok)
            print("%s %d - %s: %s, %.0f s" % ("ok" if ok else "not ok", passed + failed, name, said,
                                              time.monotonic() - begin), flush=True)
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return failed != 0


class Report:
    """TAP lines, and how many of each kind."""

    def __init__(self):
        self.passed = self.failed = 0

    def add(self, name, metric, bar, run):
        """run() gives the value of each seed; their mean has to reach the bar (or to stay below)."""
        begin = time.monotonic()
        try:
            values = run()
            mean = statistics.mean(values)
            ok, said = (mean <= bar if metric in LOWER else mean >= bar), "%s %.4f (%s), bar %.4f" % (
                metric, mean, ", ".join("%.4f" % v for v in values), bar)
        except RuntimeError as e:
            ok, said = False, str(e)
        self.passed, self.failed = self.passed + ok, self.failed + (not ok)
        print("%s %d - %s: %s, %.0f s" % ("ok" if ok else "not ok", self.passed + self.failed, name,
                                          said, time.monotonic() - begin), flush=True)

    def end(self):
        print("%d passed, %d failed, 0 skipped" % (self.passed, self.failed))
        return self.failed != 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program", nargs="?")
    p.add_argument("pattern", nargs="?", default="")
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--long", action="store_true")
    p.add_argument("--strategies", action="store_true")
    p.add_argument("--compress", action="store_true")
    p.add_argument("--bars", action="store_true")
    args = p.parse_args()
    if args.bars:
        print("\n".join(bars()))
        return 0
    if not args.program:
        p.error("which program?")
    if args.compress:
        return compress_all(args.program, args.pattern)
    report = Report()
    if args.strategies:
        for name in STRATEGIES:
            if args.pattern in name:
                report.add(name, "accuracy", RECIPES["fashion-cnn"][2],
                           lambda: [train_by_many(args.program, name)["accuracy"]])
        return report.end()
    if not chosen(args.pattern):
        p.error("no recipe is called like '%s'; there are %s" % (args.pattern, ", ".join(RECIPES)))
    for name in chosen(args.pattern):
        arguments, metric, bar, long = RECIPES[name]
        if not long or args.long:
            report.add(name, metric, bar, lambda: [measure(args.program, arguments, s + 1, metric)
                                                   for s in range(args.seeds)])
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
