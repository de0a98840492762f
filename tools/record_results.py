#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the results of a build, so that a restructured program can be compared with the previous one.

Usage: record_results.py PROGRAM FILE       writes FILE: a line `case<TAB>result` for each case
       record_results.py --compare A B      lists the cases whose results differ; exit code 1 if any does

Cases: weights_sha256 of every model of the zoo after 50 steps under its usual strategies, and the public symbols of
the shared library beside the program. Results belong to one processor: the weights differ between instruction sets."""
import concurrent.futures
import json
import os
import subprocess
import sys

STEPS, BATCH = 50, 16
MODELS = {  # model: (data, options)
    "mlp": ("fashion-mnist", ["--optimizer", "momentum"]),
    "fashion-cnn": ("fashion-mnist", ["--optimizer", "adam"]),
    "cnn": ("fashion-mnist", ["--optimizer", "sgd"]),
    "cnn-small": ("fashion-mnist", ["--optimizer", "adam", "--augment", "crop=2 flip=true"]),
    "resnet8": ("fashion-mnist", ["--optimizer", "momentum"]),
    "resnet20": ("fashion-mnist", ["--optimizer", "momentum"]),
    "lstm": ("synthetic-sequence", ["--optimizer", "adam"]),
    "text-cnn vocabulary=256": ("synthetic-text", ["--optimizer", "adam"]),
    "transformer vocabulary=256": ("synthetic-language", ["--optimizer", "adam"]),
    "moe-transformer vocabulary=256": ("synthetic-language", ["--optimizer", "adam"]),
    "wide-deep": ("synthetic-ctr", ["--optimizer", "adagrad"]),
    "siamese": ("fashion-mnist", ["--optimizer", "adam", "--pairs", "rotate=20 crop=3"]),
    "triplet": ("fashion-mnist", ["--optimizer", "adam"]),
    "rbm": ("fashion-mnist", ["--optimizer", "sgd"]),
    "faster-rcnn": ("scenes", ["--optimizer", "momentum"]),
}
STRATEGIES = {  # name: (tasks for `launch`, options)
    "one process": ([], []),
    "mirrored": ([], ["--strategy", "mirrored replicas=2"]),
    "workers": (["--workers", "2"], []),
    "parameter servers": (["--workers", "2", "--ps", "1"], ["--strategy", "parameter_server"]),
    "local_sgd": ([], ["--strategy", "local_sgd groups=2 period=8"]),
    "mesh": ([], ["--mesh", "rows:2", "--layout", "batch:rows"]),
}


def result(program, model, strategy):
    """The hash, or the reason why this model cannot be trained this way (which is a result, too)."""
    data, options = MODELS[model]
    tasks, more = STRATEGIES[strategy]
    r = subprocess.run([program, *(["launch", *tasks, "--"] if tasks else []), "train", "--model", model, "--data", data,
                        "--steps", str(STEPS), "--batch", str(BATCH), "--seed", "5", "--quiet", "--no-test", "--json",
                        *options, *more], capture_output=True, text=True, timeout=900)
    lines = [l[l.index("{"):] for l in r.stdout.splitlines() if "weights_sha256" in l]
    if r.returncode == 0 and len(lines) == 1:
        return json.loads(lines[0])["weights_sha256"]
    return "exit code %d" % r.returncode


def symbols(program):
    library = os.path.join(os.path.dirname(os.path.abspath(program)), "libmeshflow.so")
    r = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    return sorted(line.split()[-1] for line in r.stdout.splitlines())


def record(program, path):
    cases = [(m, s) for m in MODELS for s in STRATEGIES]
    with open(path, "w", encoding="utf-8") as f, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for (m, s), r in zip(cases, pool.map(lambda case: result(program, *case), cases)):
            f.write("%s, %s\t%s\n" % (m, s, r))
            f.flush()
        f.writelines("symbol %s\tdefined\n" % name for name in symbols(program))


def compare(first, second):
    results = []
    for path in first, second:
        with open(path, encoding="utf-8") as f:
            results.append(dict(line.rstrip("\n").split("\t") for line in f))
    a, b = results
    different = [c for c in sorted(a.keys() | b.keys()) if a.get(c) != b.get(c)]
    for c in different:
        print("%s: %s, %s" % (c, a.get(c, "absent"), b.get(c, "absent")))
    print("%d cases, %d differ" % (len(a.keys() | b.keys()), len(different)))
    return 1 if different else 0


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--compare":
        return compare(sys.argv[2], sys.argv[3])
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    record(sys.argv[1], sys.argv[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
