#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what `make train` did: the loss of the cluster and of one process, the kills, and both hashes.

Usage: draw_demonstration.py [FOLDER] >docs/figures/demonstration.svg

FOLDER (default: build/train) and FOLDER-alone are written by tools/demonstrate.sh."""
import csv
import math
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 400, 60, 20, 64, 96

HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">
<title>Loss of a cluster with killed processes, and of one process</title>
<style>
svg{font:13px system-ui,sans-serif}
.paper{fill:#fff}text{fill:#333}.title{font-size:15px;font-weight:600}.small{font-size:12px}
.mono{font:12px ui-monospace,monospace}.grid{stroke:#ddd}.event{stroke:#d55e00;stroke-dasharray:4 3}.event-text{fill:#d55e00}
.alone{fill:none;stroke:#009e73;stroke-width:6;stroke-opacity:.35}.cluster{fill:none;stroke:#0072b2;stroke-width:1.8}
</style>
<rect class="paper" width="100%%" height="100%%"/>
"""


def losses(folder):
    with open(folder + "/curve.csv", encoding="utf-8") as f:
        return [(int(r["step"]), float(r["loss"])) for r in csv.DictReader(f) if r["part"] == "training"]


def events(folder):
    with open(folder + "/events.tsv", encoding="utf-8") as f:
        return [(int(step), what) for step, what in (line.rstrip("\n").split("\t") for line in f)]


def draw(folder):
    cluster, alone = losses(folder), losses(folder + "-alone")
    with open(folder + "/weights_sha256", encoding="utf-8") as f:
        hashes = f.read().split()
    last = cluster[-1][0]
    top = 0.5 * math.ceil(2 * max(loss for _, loss in cluster))

    def x(step):
        return LEFT + (WIDTH - LEFT - RIGHT) * step / last

    def y(loss):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * loss / top

    def path(points, kind):
        return '<path class="%s" d="M%s"/>' % (kind, "L".join("%.1f %.1f" % (x(s), y(v)) for s, v in points))

    yield HEAD % (WIDTH, HEIGHT, WIDTH, HEIGHT)
    yield '<text class="title" x="%d" y="22">Training loss, fashion-cnn on Fashion-MNIST, %d steps</text>' % (LEFT, last)
    yield '<path class="cluster" d="M%d 40h24"/><text class="small" x="%d" y="44">3 workers, 2 parameter servers, ' \
          '2 supervisors</text>' % (LEFT, LEFT + 30)
    yield '<path class="alone" d="M%d 40h24"/><text class="small" x="%d" y="44">1 process</text>' % (LEFT + 330, LEFT + 360)
    for mark in (0.5 * i for i in range(int(2 * top) + 1)):
        yield '<path class="grid" d="M%d %.1fH%d"/><text class="small" x="%d" y="%.1f" text-anchor="end">%g</text>' % (
            LEFT, y(mark), WIDTH - RIGHT, LEFT - 8, y(mark) + 4, mark)
    for step in range(0, last + 1, 100):
        yield '<text class="small" x="%.1f" y="%d" text-anchor="middle">%d</text>' % (x(step), HEIGHT - BOTTOM + 18, step)
    yield path(alone, "alone")
    yield path(cluster, "cluster")
    for i, (step, what) in enumerate(events(folder)):  # neighbours on different lines do not overlap
        yield '<path class="event" d="M%.1f %dV%d"/><text class="small event-text" x="%.1f" y="%d">%s</text>' % (
            x(step), TOP, HEIGHT - BOTTOM, x(step) + 4, TOP + 12 + 16 * (i % 2), what)
    for row, (who, value) in enumerate(zip(("cluster", "1 process"), hashes)):
        yield '<text class="mono" x="%d" y="%d" xml:space="preserve">weights_sha256 %-9s  %s</text>' % (
            LEFT, HEIGHT - BOTTOM + 48 + 20 * row, who, value)
    yield "</svg>"


def main():
    print("\n".join(draw(sys.argv[1] if len(sys.argv) > 1 else "build/train")))


if __name__ == "__main__":
    main()
