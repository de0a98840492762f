#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Groups of workers that train apart and average their weights: killed, joined, converged.

Usage: groups.py PROGRAM [PATTERN] [--kills N]

Prints TAP lines and, last, `N passed, N failed, N skipped`. One process that does all groups is the
oracle: whoever has a group, and whatever happens to it, the weights are the same to the bit.
"""
import random
import time

import harness
import members
from harness import check, test

harness.TESTS.clear() # those of members.py, whose bench is ours
harness.HOST_TESTS.clear()


class Bench(members.Bench):
    """All train by groups."""
    groups, period = 4, 16

    def train(self, *more, steps=300, model="mlp"):
        command = super().train("--strategy", "local_sgd groups=%d period=%d" % (self.groups, self.period),
                                *more, steps=steps)
        return [model if c == "fashion-cnn" else c for c in command]


def kill_in_turn(b, workers):
    out = b.out("run-%d-%d" % (workers, b.groups))
    steps = 400 * b.kills # to be killed in time
    command = b.train("--out", out, "--save-steps", "100", steps=steps)
    b.start_all(workers, command)
    b.await_step(20)
    for k in range(b.kills):
        victim = k % workers
        if any(p.returncode == 0 for p in b.workers.values()):
            break
        time.sleep(random.random() * 0.6)
        b.kill(victim)
        if random.random() < 0.8 or sum(p.poll() is None for p in b.workers.values()) < 2:
            b.start(victim, command)
        time.sleep(0.4)
    check(b.finish(600) == b.alone("--save-steps", "100", steps=steps), "other weights\n" + b.logs())
    b.audit(out)
    members.say_times(b.recoveries())


@test
def any_worker_may_be_killed_and_comes_back(b):
    """In turn, the chief among them. Each has a group or two: others take them over."""
    kill_in_turn(b, 3)


@test
def any_worker_of_a_group_may_be_killed_and_comes_back(b):
    """Fewer groups than workers."""
    b.groups = 2
    kill_in_turn(b, 3)


if __name__ == "__main__":
    options = harness.parser()
    options.add_argument("--kills", type=int, default=6, help="of workers in turn")
    harness.main(Bench, options)
