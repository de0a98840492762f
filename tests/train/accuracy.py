#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of the zoo learn what they should: a recipe and a bar for each. Part of `make soak`.

Usage: accuracy.py PROGRAM [--seeds N] [--long] [PATTERN]
       accuracy.py --bars      the table of docs/models.md

PATTERN: the recipe of that name, else those whose name contains it. --seeds N: the mean over seeds 1
to N counts. --long: also what takes an hour. Prints TAP lines with
what was reached and, last, `N passed, N failed, N skipped`. docs/training.md has the figures.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

FASHION = ["--data", "fashion-mnist", "--batch", "128"]
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
    "lstm": (["--model", "lstm vocabulary=64", "--data", "synthetic-sequence", "--batch", "64",
              "--epochs", "8", "--optimizer", "adam", "--lr", "0.01", "--clip", "global_norm=1"],
             "accuracy", 0.95, False),
    "text-cnn": (["--model", "text-cnn vocabulary=256", "--data", "synthetic-text", "--batch", "64",
                  "--epochs", "2", "--optimizer", "adam"], "accuracy", 0.85, False),
    "transformer": (["--model", "transformer vocabulary=64", "--data", "synthetic-language", "--batch",
                     "64", "--epochs", "3", "--optimizer", "adam", "--lr", "0.003", "--schedule",
                     "one_cycle"], "accuracy", 0.444, False),
    "wide-deep": (["--model", "wide-deep", "--data", "synthetic-ctr", "--batch", "64", "--epochs", "1",
                   "--optimizer", "adam"], "auc", 0.8, False),
}
# What one who has the rule of a generated set reaches in its test part, see docs/data.md.
BEST = {"synthetic-sequence": 1.0, "synthetic-text": 1.0, "synthetic-language": 0.4453,
        "synthetic-ctr": 0.877}


def bars():
    """The rows of the table in docs/models.md."""
    for name, (arguments, metric, bar, _) in RECIPES.items():
        data = arguments[arguments.index("--data") + 1]
        yield "| %s | %s | %s | %g | %s |" % (name, data, metric, bar, BEST.get(data, ""))


def chosen(pattern):
    """The recipe of that name, else those whose name contains it."""
    return [pattern] if pattern in RECIPES else [n for n in RECIPES if pattern in n]


def train(program, arguments, seed):
    r = subprocess.run([program, "train", *arguments, "--seed", str(seed), "--quiet", "--json"],
                       capture_output=True, text=True)
    if r.returncode != 0:
        raise RuntimeError(r.stderr.strip())
    return json.loads(r.stdout.splitlines()[-1])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program", nargs="?")
    p.add_argument("pattern", nargs="?", default="")
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--long", action="store_true")
    p.add_argument("--bars", action="store_true")
    args = p.parse_args()
    if args.bars:
        print("\n".join(bars()))
        return 0
    if not args.program:
        p.error("which program?")
    if not chosen(args.pattern):
        p.error("no recipe is called like '%s'; there are %s" % (args.pattern, ", ".join(RECIPES)))
    passed = failed = 0
    for name in chosen(args.pattern):
        arguments, metric, bar, long = RECIPES[name]
        if long and not args.long:
            continue
        begin = time.monotonic()
        try:
            values = [train(args.program, arguments, s + 1)[metric] for s in range(args.seeds)]
            mean = statistics.mean(values)
            ok, said = mean >= bar, "%s %.4f (%s), bar %.4f" % (
                metric, mean, ", ".join("%.4f" % v for v in values), bar)
        except RuntimeError as e:
            ok, said = False, str(e)
        passed, failed = passed + ok, failed + (not ok)
        print("%s %d - %s: %s, %.0f s" % ("ok" if ok else "not ok", passed + failed, name, said,
                                          time.monotonic() - begin), flush=True)
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
