#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradient codecs on a slow link: time until fashion-cnn reaches an accuracy, against uncompressed gradients. Two
workers.

Usage: codecs.py [--link local|hosts] [--rate MBIT] [--accuracy A] [--most STEPS] [--train ARGS] [CODEC...]
       MESHFLOW: the program (build/meshflow)

Weights do not depend on the number of workers, so one process determines how many steps a codec needs, by testing
a checkpoint every few steps. Then two workers do that many steps over the link; the time is from process start to
process end.

--link hosts   two network namespaces with a veth between them that `tc` shapes; needs root. Tasks talk by
               the transport between hosts, over TLS; --train '--transport ucx' and the like for another.
--link local   processes of this host; the time that a link of this rate would need for the bytes sent is added to
               the measured time, as if communication did not overlap with computing.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time

import namespaces

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MESHFLOW = os.environ.get("MESHFLOW", os.path.join(ROOT, "build", "meshflow"))
CODECS = [  # and the optimizer for each
    ("none", "momentum", 0.02),
    ("grain=4; fp16", "momentum", 0.02),
    ("grain=4; int8", "momentum", 0.02),
    ("grain=4; top_k ratio=0.01", "sgd", 0.2),
    ("grain=4; power_sgd rank=4", "momentum", 0.02),
]


def command(codec, optimizer, rate, batch, *more):
    return ["train", "--model", "fashion-cnn", "--data", "fashion-mnist", "--batch", str(batch), "--optimizer",
            optimizer, "--lr", str(rate), "--codec", codec, "--quiet", "--json", "--no-test", *more]


def run(args):
    r = subprocess.run(args, capture_output=True, text=True)
    if r.returncode != 0:
        raise RuntimeError("%s: %s" % (" ".join(args), r.stderr.strip()))
    return json.loads(r.stdout.splitlines()[-1])


# ---- how many steps ----

def accuracy_of(prefix):
    return run([MESHFLOW, "eval", "--model", "fashion-cnn", "--data", "fashion-mnist", "--from", prefix,
                "--json"])["accuracy"]


def steps_to(args, codec, optimizer, rate):
    """Steps until the test shows the accuracy, to `every`; None: not within the most."""
    with tempfile.TemporaryDirectory() as out:
        run([MESHFLOW, *command(codec, optimizer, rate, args.batch, "--steps", str(args.most), "--save-steps",
                                str(args.every), "--keep", "1000", "--out", out)])
        for step in range(args.every, args.most + 1, args.every):
            if accuracy_of(os.path.join(out, "model.ckpt-%d" % step)) >= args.accuracy:
                return step
    return None


# ---- how long ----

class Local:
    """Two processes of this host."""

    def __init__(self, args):
        self.rate = args.rate

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def seconds(self, train):
        begin = time.monotonic()
        r = run([MESHFLOW, "launch", "--workers", "2", "--json", "--", *train])
        return time.monotonic() - begin + r["sent_bytes"] * 8 / (self.rate * 1e6), r


class Hosts:
    """Two network namespaces, and a link of the given rate between them."""

    def __init__(self, args):
        # namespaces of one machine share memory, which must not be used here
        self.more = ["--strategy", "multi_worker_mirrored collective=net", *shlex.split(args.train)]
        self.hosts = namespaces.Hosts(2, args.rate)

    def __enter__(self):
        self.hosts.__enter__()
        try:
            self.hosts.make_certificates(MESHFLOW)
        except BaseException:
            self.hosts.__exit__()
            raise
        return self

    def __exit__(self, *why):
        self.hosts.__exit__(*why)

    def environment(self, index):
        cluster = {"worker": self.hosts.addresses}
        return {**self.hosts.certificates(index), "MESHFLOW_THREADS": "1",
                "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})}

    def seconds(self, train):
        begin = time.monotonic()
        tasks = [self.hosts.start(i, [MESHFLOW, *train, *self.more], self.environment(i)) for i in (0, 1)]
        said = [t.communicate() for t in tasks]
        for task, (_, errors) in zip(tasks, said):
            if task.returncode != 0:
                raise RuntimeError(errors.strip())
        return time.monotonic() - begin, json.loads(said[0][0].splitlines()[-1])


def measure(args, link, codec, optimizer, rate, plain):
    steps = steps_to(args, codec, optimizer, rate)
    if steps is None:
        print("%-28s %8s %12s %10s %8s" % (codec, "-", "-", "not within %d steps" % args.most, "-"), flush=True)
        return None
    seconds, r = link.seconds(command(codec, optimizer, rate, args.batch, "--steps", str(steps)))
    print("%-28s %8d %12.0f %10.1f %8s" % (codec, steps, r["sent_bytes"] / steps, seconds,
                                           "%.2f" % (plain / seconds) if plain else "1"), flush=True)
    return seconds


def main():
    p = argparse.ArgumentParser()
    p.add_argument("codecs", nargs="*", help="instead of the usual ones; with momentum, rate 0.02")
    p.add_argument("--link", choices=["local", "hosts"], default="local")
    p.add_argument("--rate", type=float, default=100.0, help="megabits a second")
    p.add_argument("--accuracy", type=float, default=0.85)
    p.add_argument("--most", type=int, default=800)
    p.add_argument("--every", type=int, default=50)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--train", default="")
    args = p.parse_args()
    codecs = CODECS[:1] + [(c, "momentum", 0.02) for c in args.codecs] if args.codecs else CODECS
    print("# fashion-cnn, batch %d, two workers, %s, %g Mbit/s, to %.1f %% of the test; load %.1f" % (
        args.batch, args.link, args.rate, 100 * args.accuracy, os.getloadavg()[0]))
    print("%-28s %8s %12s %10s %8s" % ("codec", "steps", "bytes/step", "seconds", "ratio"))
    plain = None
    with Hosts(args) if args.link == "hosts" else Local(args) as link:
        for codec, optimizer, rate in codecs:
            seconds = measure(args, link, codec, optimizer, rate, plain)
            plain = plain or seconds
    return 0


if __name__ == "__main__":
    sys.exit(main())
