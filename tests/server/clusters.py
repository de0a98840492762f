#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clusters of servers: any order of starting, several masters, several clients, tasks that are pinned.

Usage: clusters.py PROGRAM [PATTERN] [--hosts]"""
import json
import os
import re
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "train"))
import harness  # noqa: E402
from harness import check, root_test, test  # noqa: E402
from hosts import Hosts  # noqa: E402

SECONDS = 60


def node(name, op, *inputs, device="", **attrs):
    """Of a GraphDef, as text."""
    lines = ["name: \"%s\" op: \"%s\" device: \"%s\"" % (name, op, device)]
    lines += ["input: \"%s\"" % i for i in inputs]
    lines += ["attr { key: \"%s\" value { %s } }" % (k, v) for k, v in attrs.items()]
    return "node { %s }\n" % " ".join(lines)


FLOAT = {"dtype": "type: DT_FLOAT"}
SCALAR = "shape { }"


def number(name, value, device=""):
    return node(name, "Const", device=device, value="tensor { dtype: DT_FLOAT tensor_shape { } float_val: %g }" % value,
                **FLOAT)


def counting(count_at, workers, container=""):
    """A variable, `count`, at a device that is named; `add`: each worker adds one to it; `set`: it is 0."""
    text = node("count", "VarHandleOp", device=count_at, shape=SCALAR, container="s: \"%s\"" % container,
                shared_name="s: \"count\"", **FLOAT)
    text += number("zero", 0) + node("set", "AssignVariableOp", "count", "zero", **FLOAT)
    for i, worker in enumerate(workers):
        text += number("one%d" % i, 1, worker)
        text += node("more%d" % i, "Mul", "one%d" % i, "one%d" % i, device=worker, T="type: DT_FLOAT")
        text += node("add%d" % i, "AssignAddVariableOp", "count", "more%d" % i, **FLOAT)
    text += node("add", "NoOp", *["^add%d" % i for i in range(len(workers))])
    return text + node("value", "ReadVariableOp", "count", **FLOAT)


def free_addresses(n, host="127.0.0.1"):
    s = [socket.create_server((host, 0)) for _ in range(n)]
    out = ["%s:%d" % (host, x.getsockname()[1]) for x in s]
    for x in s:
        x.close()
    return out


class Clusters(harness.Bench):
    def __init__(self, args):
        super().__init__(args)
        self.hosts, self.logs = None, {}

    def close(self):
        super().close()
        if self.hosts:
            self.hosts.close()

    def server(self, name, *more, before=()):
        """Starts one; its log is to be read by its name."""
        self.logs[name] = self.out(name + ".log")
        with open(self.logs[name], "w", encoding="utf-8") as log:
            p = subprocess.Popen([*before, self.program, "server", *more], stdout=subprocess.PIPE, stderr=log, text=True)
        self.running.append(p)
        check(p.stdout.readline().startswith("serving"), "%s does not start: %s" % (name, self.log(name)))
        return p

    def task(self, cluster, job, index):
        return self.server("%s%d" % (job, index), "--cluster", json.dumps(cluster), "--job-name", job, "--task-index",
                           str(index))

    def log(self, name):
        with open(self.logs[name], encoding="utf-8") as f:
            return f.read()

    def graph(self, name, text):
        with open(self.out(name + ".pbtxt"), "w", encoding="utf-8") as f:
            f.write(text)
        return self.out(name + ".pbtxt")

    def client(self, graph, target, *more, before=()):
        p = subprocess.Popen([*before, self.program, "graph", "run", graph, "--target", "grpc://" + target, "--json", *more],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.running.append(p)
        return p

    def value(self, p):
        """What a client has fetched, or the name of its error."""
        out, err = p.communicate(timeout=2 * SECONDS)
        check(out, "no answer: " + err)
        said = json.loads(out.splitlines()[-1])
        return said["error"]["code"] if "error" in said else said["fetches"][0]["values"]


def until(condition, what):
    end = time.monotonic() + SECONDS
    while not condition():
        check(time.monotonic() < end, "it did not happen: " + what)
        time.sleep(0.05)


@test
def tasks_may_be_started_in_any_order(b):
    a = free_addresses(3)
    cluster = {"ps": a[:1], "worker": a[1:]}
    graph = b.graph("counting", counting("/job:ps/task:0", ["/job:worker/task:0", "/job:worker/task:1"]))
    client = b.client(graph, a[2], "--target", "set", "--target", "add", "--fetch", "value")  # the first of all
    b.task(cluster, "worker", 1)
    words = "a session has been waiting for /job:ps/replica:0/task:0 at %s for" % a[0]
    until(lambda: words in b.log("worker1"), words)
    b.task(cluster, "ps", 0)
    b.task(cluster, "worker", 0)
    check(b.value(client) == 2, "another value")


@test
def five_clients_of_one_task_share_only_shared_resources(b):
    address = free_addresses(1)[0]
    b.task({"worker": [address]}, "worker", 0)
    mine = [b.graph("mine%d" % i, counting("/job:worker/task:0", ["/job:worker/task:0"] * (i + 1), "box%d" % i))
            for i in range(5)]
    clients = [b.client(g, address, "--target", "set", *["--target", "add"] * 20, "--fetch", "value") for g in mine]
    values = [b.value(c) for c in clients]
    check(values == [20 * (i + 1) for i in range(5)], "in containers of their own: %s" % values)
    ours = b.graph("ours", counting("/job:worker/task:0", ["/job:worker/task:0"]))
    check(b.value(b.client(ours, address, "--target", "set", "--fetch", "value")) == 0, "the shared one")
    for c in [b.client(ours, address, *["--target", "add"] * 20) for _ in range(5)]:
        c.communicate(timeout=SECONDS)
    check(b.value(b.client(ours, address, "--fetch", "value")) == 100, "shared by five")


def queue_across_tasks():
    """`twice`: what `get` takes from a queue of worker 1, doubled by worker 0; `put` puts 21 there."""
    there, types = "/job:worker/task:1", "list { type: DT_FLOAT }"
    return (node("q", "FIFOQueueV2", device=there, component_types=types, shared_name="s: \"q\"") +
            number("half", 21, there) + node("put", "QueueEnqueueV2", "q", "half", device=there, Tcomponents=types) +
            node("get", "QueueDequeueV2", "q", device=there, component_types=types) +
            node("twice", "Add", "get", "get", device="/job:worker/task:0", T="type: DT_FLOAT"))


@test
def a_step_that_stalls_names_the_node_the_value_and_the_task(b):
    a = free_addresses(2)
    graph = b.graph("queue", queue_across_tasks())
    os.environ["MESHFLOW_STALL_REPORT_MS"] = "100"
    try:
        for i in range(2):
            b.server("worker%d" % i, "--cluster", json.dumps({"worker": a}), "--job-name", "worker", "--task-index",
                     str(i), "--name", "stalls")
    finally:
        del os.environ["MESHFLOW_STALL_REPORT_MS"]
    client = b.client(graph, a[0], "--fetch", "twice")
    words = "has waited for the value 'edge_1_get' from /job:worker/replica:0/task:1/device:CPU:0 for"
    until(lambda: words in b.log("worker0"), words)
    words = "node 'get' (QueueDequeueV2) has waited on this task for"
    until(lambda: words in b.log("worker1"), words)

    def hang():
        return subprocess.run([b.program, "job", "hang", "stalls"], capture_output=True, text=True).stdout
    words = r"has been waiting for worker 1 .*: the value 'edge_1_get'"
    until(lambda: re.search(words, hang()), "`meshflow job hang` says: " + words)
    check(b.client(graph, a[0], "--target", "put").wait(SECONDS) == 0, "put")
    check(b.value(client) == 42, "another value")
    words = "completed after a wait of"
    until(lambda: all(words in b.log("worker%d" % i) for i in range(2)), words)
    check("waiting for worker 1" not in hang(), "`meshflow job hang` still shows a wait: " + hang())


def filters(*devices):
    return [x for d in devices for x in ("--device-filter", d)]


@root_test
def two_masters_with_two_workers_each_and_a_pinned_task(b):
    """One cluster description for all hosts; each starts its own tasks. A lost host affects only its own master and workers:
    pinned nodes keep their tasks."""
    b.hosts = Hosts(3)
    h = [b.hosts.address(i) for i in range(3)]
    cluster = {"core": [h[2] + ":2200"], "master": [h[0] + ":2200", h[1] + ":2200"],
               "worker": ["%s:%d" % (h[i], 2201 + k) for i in range(2) for k in range(2)]}
    with open(b.out("cluster.json"), "w", encoding="utf-8") as f:
        json.dump(cluster, f)
    begin = lambda i: b.server("host%d" % i, "--cluster", b.out("cluster.json"), "--here", "--insecure-any-peer",
                               before=b.hosts.on(i))
    servers = [begin(i) for i in range(3)]
    graphs = [b.graph("of%d" % i, counting("/job:core/task:0", ["/job:worker/task:%d" % (2 * i + k) for k in range(2)]))
              for i in range(2)]

    def client(i, *more):
        return b.client(graphs[i], h[i] + ":2200", "--insecure-any-peer",
                        *filters("/job:core", "/job:master/task:%d" % i, *["/job:worker/task:%d" % (2 * i + k)
                                                                            for k in range(2)]),
                        *more, before=b.hosts.on(i))
    check(b.value(client(0, "--target", "set", "--fetch", "value")) == 0, "the beginning")
    for c in [client(i, *["--target", "add"] * 10) for i in range(2)]:  # both at a time
        c.communicate(timeout=SECONDS)
    check(b.value(client(1, "--fetch", "value")) == 40, "both masters' steps count")
    servers[1].kill()
    check(b.value(client(0, "--target", "add", "--fetch", "value")) == 42, "the other master goes on")
    servers[1] = begin(1)
    check(b.value(client(1, "--target", "add", "--fetch", "value")) == 44, "so does the first, when it is back")
    drawn = subprocess.run([*b.hosts.on(0), b.program, "doctor", "topo", "--cluster", b.out("cluster.json"), "--insecure-any-peer"],
                           capture_output=True, text=True).stdout
    check(drawn.count("Meshflow") == 7 and drawn.count("host ") == 3, drawn)


if __name__ == "__main__":
    harness.main(Clusters)
