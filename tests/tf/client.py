# SPDX-License-Identifier: Apache-2.0
"""A session of ours at servers of TensorFlow's: what corpus programs do not do. (programs.REMOTE are those.)"""
import ctypes
import json
import os
import subprocess
import threading
import time

CHECKS = {}


def check_of(fn):
    """Registers a check: it is called with servers to be started, and yields errors."""
    CHECKS[fn.__name__.replace("_", " ")] = fn
    return fn


NAMES = CHECKS


def check(name):
    import programs
    tasks = programs.Tasks()
    try:
        return dict(failures=list(CHECKS[name](tasks)))
    finally:
        tasks.stop()


def graph(build):
    """The GraphDef of what `build(tf)` adds."""
    import tensorflow.compat.v1 as tf
    with tf.Graph().as_default() as g:
        build(tf)
    return g.as_graph_def().SerializeToString()


def waiting(tf):
    tf.placeholder(tf.float32, [], name="x")
    q = tf.queue.FIFOQueue(1, tf.float32, name="q")
    tf.identity(q.dequeue(), name="got")
    tf.constant(1.5, name="c")


def code_of(fn):
    """The name of the status that fn() ends with, and its message."""
    import meshflow_lib as mf
    try:
        fn()
    except mf.Error as e:
        return e.name, str(e)
    return "OK", ""


def expect(what, got, code, *words):
    if got[0] != code or any(w not in got[1] for w in words):
        yield "%s: %s %s, expected %s with %s" % (what, *got, code, words)


def target_of(cluster, job="worker", index=0):
    return "grpc://" + cluster[job][index]


@check_of
def runs_end_in_time_and_when_they_are_cancelled(tasks):
    import meshflow_lib as mf
    with mf.Session(graph(waiting), target=target_of(tasks.start_new({"worker": 1}))) as s:
        yield from expect("a timeout", code_of(lambda: s.run(["got"], timeout_ms=200)), "DEADLINE_EXCEEDED")
        ended = []
        thread = threading.Thread(target=lambda: ended.append(code_of(lambda: s.run(["got"]))))
        thread.start()
        time.sleep(0.3)
        if s.run(["c"])[0] != 1.5:
            yield "a run beside one that waits gives another value"
        mf.lib.mf_session_cancel(s.session)
        thread.join(60)
        yield from expect("a cancelled run", ended[0] if ended else ("none", ""), "CANCELLED")
        if s.run(["c"])[0] != 1.5:
            yield "a run after one that was cancelled gives another value"


@check_of
def a_lost_or_restarted_server_is_detected(tasks):
    import meshflow_lib as mf
    cluster = tasks.start_new({"worker": 1})
    with mf.Session(graph(waiting), target=target_of(cluster)) as s:
        tasks.start({})
        yield from expect("a server that is gone", code_of(lambda: s.run(["c"])), "UNAVAILABLE",
                          "request to the server at " + cluster["worker"][0])
        tasks.start(cluster)
        got, end = ("UNAVAILABLE", ""), time.time() + 60
        while got[0] == "UNAVAILABLE" and time.time() < end:
            got = code_of(lambda: s.run(["c"]))
            time.sleep(0.05)
        yield from expect("another server", got, "ABORTED", "is not found")


@check_of
def a_lost_parameter_server_ends_the_step(tasks):
    import meshflow_lib as mf
    cluster = tasks.start_new({"ps": 1, "worker": 1})

    def build(tf):
        with tf.device("/job:ps"):
            c = tf.constant(1.5, name="there")
            r = tf.random.uniform([], name="r")
        with tf.device("/job:worker"):
            tf.add(c, r, name="here")
    with mf.Session(graph(build), target=target_of(cluster)) as s:
        s.run(["here"])
        names = sorted(n for n, _ in s.devices())
        if names != ["/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0"]:
            yield "devices: %s" % names
        tasks.say(["ps", 0])
        yield from expect("without it", code_of(lambda: s.run(["here"])), "UNAVAILABLE")


@check_of
def errors_name_nodes_and_devices(tasks):
    import meshflow_lib as mf
    target = target_of(tasks.start_new({"worker": 1}))

    def build(tf):
        tf.reshape(tf.placeholder(tf.float32, name="x"), [3], name="bad/one")

    def lost(tf):
        with tf.device("/job:nobody/task:3"):
            tf.constant(1.0, name="lost")

    def on_gpu(tf):
        with tf.device("/gpu:7"):
            tf.constant(2.5, name="soft")
    import numpy as np
    with mf.Session(graph(build), target=target) as s:
        yield from expect("a kernel", code_of(lambda: s.run(["bad/one"], {"x": np.zeros(2, np.float32)})),
                          "INVALID_ARGUMENT", "{{node bad/one}}", "/job:worker/replica:0/task:0")
        yield from expect("no feed", code_of(lambda: s.run(["bad/one"])), "INVALID_ARGUMENT", "{{node x}}")
        yield from expect("no node", code_of(lambda: s.run(["nobody"])), "NOT_FOUND", "nobody")
    yield from expect("no device", code_of(lambda: mf.Session(graph(lost), target=target).run(["lost"])),
                      "INVALID_ARGUMENT", "lost", "/job:nobody",
                      "available devices are [ /job:worker/replica:0/task:0/device:CPU:0 ]")
    with mf.Session(graph(on_gpu), target=target, soft=True) as s:
        if s.run(["soft"])[0] != 2.5:
            yield "soft placement"


@check_of
def the_program_runs_a_graph_there(tasks):
    target = target_of(tasks.start_new({"worker": 1}))
    here = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "hello.pbtxt")
    said = [subprocess.run([os.environ["MESHFLOW"], "graph", "run", here, "--feed", "x=[[1,2,3]]", "--fetch",
                            "y", "--json", *more], capture_output=True, text=True).stdout
            for more in ([], ["--target", target])]
    local, remote = ([f["values"] for f in json.loads(s)["fetches"]] for s in said)
    if local != remote:
        yield "here %s, there %s" % (local, remote)


@check_of
def containers_are_reset(tasks):
    import meshflow_lib as mf
    target = target_of(tasks.start_new({"worker": 1}))

    def build(tf):
        with tf.container("kept"):
            tf.Variable(2.5, name="a", use_resource=False)
        tf.Variable(3.5, name="b", use_resource=False)
    g = graph(build)
    with mf.Session(g, target=target) as s:
        s.run([], targets=["a/Assign", "b/Assign"])
    options = mf.SessionOptions(target=target.encode())
    names = (ctypes.c_char_p * 1)(b"kept")
    mf.check(mf.lib.mf_session_reset(ctypes.byref(options), names, 1))
    with mf.Session(g, target=target) as s:
        if s.run(["b/read"])[0] != 3.5:
            yield "the other container has lost its value"
        yield from expect("the container", code_of(lambda: s.run(["a/read"])), "FAILED_PRECONDITION", "a")


@check_of
def training_on_a_cluster_gives_the_same_losses(tasks):
    cluster = tasks.start_new({"ps": 2, "worker": 2})
    for settings in (["--optimizer", "adam"], ["--optimizer", "momentum", "--guard", "skip", "--shards", "3"]):
        command = [os.environ["MESHFLOW"], "train", "--model", "wide-deep", "--data", "synthetic-ctr", "--set",
                   "count=200", "--steps", "12", "--batch", "48", "--quiet", "--json", *settings]
        here, there = (json.loads(subprocess.run([*command, *more], capture_output=True, text=True).stdout or "{}")
                       for more in ([], ["--target", target_of(cluster)]))
        for what in ("loss", "test_loss", "auc"):
            if not there or abs(here[what] - there[what]) > 1e-6 * abs(here[what]):
                yield "%s: %s here %s, there %s" % (settings, what, here, there)


@check_of
def the_doctor_and_topo_know_TensorFlows_servers(tasks):
    cluster = tasks.start_new({"ps": 1, "worker": 1})
    said = [subprocess.run([os.environ["MESHFLOW"], *command, "--cluster", json.dumps(cluster), "--json"],
                           capture_output=True, text=True) for command in (["doctor"], ["doctor", "topo"])]
    found = [(f["what"], f["text"]) for f in json.loads(said[0].stdout)]
    if said[0].returncode or len([w for w, t in found if w == "clock"]) != 2:
        yield "doctor: %s" % found
    if [(t["job"], t["up"], t["system"]) for t in json.loads(said[1].stdout)] != [
            ("ps", True, "TensorFlow"), ("worker", True, "TensorFlow")]:
        yield "topo: " + said[1].stdout
