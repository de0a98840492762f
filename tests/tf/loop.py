# SPDX-License-Identifier: Apache-2.0
"""The training loop against TensorFlow and TensorBoard: event files both ways, the order in which hooks are
called, when they do something, checkpoints of monitored sessions both ways."""
import glob
import json
import os
import subprocess
import tempfile
import time

CHECKS = {}


def check_of(fn):
    """Registers a check: it is called with tf, np and a folder, and yields errors."""
    CHECKS[fn.__name__.replace("_", " ")] = fn
    return fn


NAMES = CHECKS


def check(name):
    import numpy as np
    import tensorflow as tf
    with tempfile.TemporaryDirectory() as folder:
        return dict(failures=list(CHECKS[name](tf, np, folder)))


def differ(what, ours, theirs):
    if ours != theirs:
        yield "%s: ours %s, theirs %s" % (what, ours, theirs)


# ---- events ----

def pictures(np):
    rng = np.random.default_rng(1)
    return {"image": rng.integers(0, 256, [40, 5, 6, 3], np.uint8), "label": np.arange(40, dtype=np.int32) % 3}


def model_for(columns):
    import model_lib
    model = model_lib.Model()
    x = model.layer("Rescaling", [model.input("image", columns["image"])], "scale=0.004")
    model.end(model.layer("Dense", [model.layer("Flatten", [x])], "units=3"))
    return model


def fit(np, folder, hooks=(), **options):
    import hooks_lib
    columns = pictures(np)
    model = model_for(columns)
    try:
        hooks_lib.train(model, columns, hooks, batch=8, out=folder, **options)
    finally:
        model.close()


def accumulate(folder):
    from tensorboard.backend.event_processing import event_accumulator
    a = event_accumulator.EventAccumulator(folder, size_guidance={"scalars": 0, "histograms": 0, "images": 0})
    return a.Reload()


@check_of
def TensorFlow_and_TensorBoard_read_our_events(tf, np, folder):
    import ctypes
    import hooks_lib as h
    more = os.path.join(folder, "more")
    hook = h.ready(h.lib.mf_hook_summary, ctypes.byref(h.SummaryOptions(
        dir=more.encode(), every=h.Every(steps=2), gradient_steps=10, image_steps=5, images=2)))
    fit(np, folder, [hook], steps=20, summary_steps=1)
    h.lib.mf_hook_free(ctypes.byref(hook))
    events = [e for p in glob.glob(folder + "/events*") for e in tf.compat.v1.train.summary_iterator(p)]
    yield from differ("file version", events[0].file_version, "brain.Event:2")
    graphs = [tf.compat.v1.GraphDef.FromString(e.graph_def) for e in events if e.HasField("graph_def")]
    if len(graphs) != 1 or "dense/kernel" not in [n.name for n in graphs[0].node]:
        yield "there are %d graphs" % len(graphs)
    a = accumulate(folder)
    yield from differ("tags", sorted(a.Tags()["scalars"]), ["accuracy", "global_step/sec", "learning_rate", "loss"])
    yield from differ("steps", [s.step for s in a.Scalars("loss")], list(range(1, 21)))
    yield from differ("rate", a.Scalars("learning_rate")[3].value, float(np.float32(0.1)))
    if not a.Scalars("loss")[0].value > a.Scalars("loss")[-1].value > 0:
        yield "the loss is not as it should be: %s" % a.Scalars("loss")
    yield from differ("graph", a.Tags()["graph"], True)
    yield from differ("steps of validation", [s.step for s in accumulate(folder + "/validation").Scalars("loss")],
                      [5, 10, 15, 20])
    yield from histograms(tf, folder, a)
    yield from images(tf, np, accumulate(more))


def histograms(tf, folder, a):
    """Those of the last epoch are of the weights in the last checkpoint."""
    reader = tf.train.load_checkpoint(folder)
    for name in "dense/kernel", "dense/bias":
        got = [e.summary.value[0].histo for p in glob.glob(folder + "/events*")
               for e in tf.compat.v1.train.summary_iterator(p) if e.step == 20 and e.summary.value
               and e.summary.value[0].tag == name][0]
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            text = session.run(tf.raw_ops.HistogramSummary(tag="x", values=reader.get_tensor(name)))
        want = tf.compat.v1.Summary.FromString(text).value[0].histo
        if got.SerializeToString() != want.SerializeToString():
            yield "%s: the histogram is %s, not %s" % (name, got, want)
        if len(a.Histograms(name)) != 4:
            yield "%s: %d histograms, not 4" % (name, len(a.Histograms(name)))


def images(tf, np, a):
    yield from differ("images", sorted(a.Tags()["images"]), ["image/image/0", "image/image/1"])
    yield from differ("gradients", sorted(a.Tags()["histograms"]),
                      ["gradients/dense/bias", "gradients/dense/kernel"])
    first = a.Images("image/image/1")[0]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        pixels = session.run(tf.io.decode_png(first.encoded_image_string))
    want = pictures(np)["image"][4 * 8 + 1]  # in order: the second of the fifth batch
    if first.step != 5 or not np.array_equal(pixels, want):
        yield "the picture of step %d differs" % first.step


@check_of
def TensorBoard_sees_no_step_twice_after_a_resume(tf, np, folder):
    fit(np, folder, steps=33, summary_steps=1, save_steps=10)
    for lost in glob.glob(folder + "/model.ckpt-33.*"):
        os.remove(lost)
    fit(np, folder, steps=40, summary_steps=1, save_steps=10, resume=True)
    yield from differ("files", len(glob.glob(folder + "/events*")), 2)
    yield from differ("steps", [s.step for s in accumulate(folder).Scalars("loss")], list(range(1, 41)))
    yield from differ("steps of validation",
                      [s.step for s in accumulate(folder + "/validation").Scalars("loss")], list(range(5, 41, 5)))


def show(folder):
    program = os.environ.get("MESHFLOW") or "build/release/meshflow"
    out = subprocess.run([program, "events", "show", "--json", folder], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


@check_of
def we_read_events_of_TensorFlow(tf, np, folder):
    from tensorflow.python.eager import context
    with context.eager_mode():
        writer = tf.summary.create_file_writer(folder + "/two")
        with writer.as_default():
            for i in range(5):
                tf.summary.scalar("loss", 1 / (i + 1), step=i)
            tf.summary.histogram("weights", np.arange(10.0), step=4)
            tf.summary.image("picture", np.zeros([1, 4, 4, 3]), step=4)
        writer.close()
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = tf.constant([1.0, 2.0], name="x")
        merged = v1.summary.merge([v1.summary.scalar("sum", x[0] + x[1]), v1.summary.histogram("x", x),
                                   v1.summary.image("i", tf.zeros([1, 3, 5, 1]))])
        writer = v1.summary.FileWriter(folder + "/one", graph)
        writer.add_summary(session.run(merged), 7)
        writer.close()
    got = {os.path.basename(r["run"]): r for r in show(folder)}
    tags = {run: [(t["tag"], t["kind"], t["events"], t["last_step"], t.get("value")) for t in r["tags"]]
            for run, r in got.items()}
    yield from differ("tags of TensorFlow 1", tags["one"], [
        ("sum", "scalar", 1, 7, 3), ("x_1", "histogram", 1, 7, None), ("i/image/0", "image", 1, 7, None)])
    yield from differ("tags of TensorFlow 2", tags["two"], [
        ("loss", "scalar", 5, 4, 0.200000003), ("weights", "histogram", 1, 4, None),
        ("picture", "image", 1, 4, None)])
    yield from differ("graph", got["one"]["graph"], True)


# ---- hooks ----

def counting(tf):
    """A graph whose steps count and add; its serialised form; what to run."""
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        step = v1.train.get_or_create_global_step()
        w = v1.get_variable("w", initializer=tf.constant([1.0, 2.0]), use_resource=True)
        tf.group(v1.assign_add(w, [1.0, 3.0]), v1.assign_add(step, 1), name="train")
        v1.summary.scalar("w0", w[0])
        v1.global_variables_initializer()
    return graph, graph.as_graph_def().SerializeToString()


# The cases: the run after which a hook (the first of two) requests a stop or fails, and how.
PROGRAMS = {"stop after 3": dict(stop=3), "stop at once": dict(stop=1),
            "aborted in run 2": dict(stop=4, fail=2, error="AbortedError", code=10),
            "unavailable in run 1": dict(stop=3, fail=1, error="UnavailableError", code=14),
            "end of input in run 2": dict(fail=2, error="OutOfRangeError", code=11),
            "failure in run 2": dict(fail=2, error="InternalError", code=13)}


def their_calls(tf, program):
    v1 = tf.compat.v1
    calls = []
    graph, _ = counting(tf)

    class Recorder(v1.train.SessionRunHook):
        def __init__(self, name, program):
            self.name, self.program, self.runs = name, program, 0

        def note(self, what):
            calls.append(self.name + "." + what)

        def begin(self):
            self.note("begin")

        def after_create_session(self, session, coord):
            self.note("after_create_session")

        def before_run(self, run_context):
            self.note("before_run")

        def after_run(self, run_context, run_values):
            self.note("after_run")
            self.runs += 1
            if self.runs == self.program.get("stop"):
                run_context.request_stop()
            if self.runs == self.program.get("fail"):
                raise getattr(tf.errors, self.program["error"])(None, None, "as told")

        def end(self, session):
            self.note("end")

    with graph.as_default():
        hooks = [Recorder("a", program), Recorder("b", {})]
        try:
            with v1.train.MonitoredSession(hooks=hooks) as session:
                while not session.should_stop():
                    session.run(graph.get_operation_by_name("train"))
        except tf.errors.InternalError:
            calls.append("failed")
    return calls


def our_calls(tf, program):
    import hooks_lib as h
    calls = []
    _, serialised = counting(tf)

    def recorder(name, program):
        state = dict(runs=0)

        def note(what):
            def call(*_):
                calls.append(name + "." + what)
                return 0
            return call

        def after_run(_, loop, __):
            note("after_run")()
            state["runs"] += 1
            if state["runs"] == program.get("stop"):
                h.lib.mf_hook_loop_stop(loop)
            return program["code"] if state["runs"] == program.get("fail") else 0
        methods = {m: note(m) for m in ("begin", "after_create_session", "before_run", "end")}
        return h.PythonHook(dict(methods, after_run=after_run))
    hooks = [recorder("a", program), recorder("b", {})]
    session = h.Monitored(serialised, [k.hook for k in hooks])
    try:
        while not session.should_stop():
            session.run("train")
    except h.mf.Error as e:
        if e.code == 13:
            calls.append("failed")
    session.close()
    return calls


@check_of
def hooks_are_called_in_the_same_order(tf, np, folder):
    for name, program in PROGRAMS.items():
        yield from differ(name, our_calls(tf, program), their_calls(tf, program))


def names_in(folder, pattern):
    return sorted(os.path.basename(p) for p in glob.glob(os.path.join(folder, pattern)))


def their_loop(tf, folder, steps):
    v1 = tf.compat.v1
    graph, _ = counting(tf)
    with graph.as_default():
        hooks = [v1.train.StopAtStepHook(num_steps=steps),
                 v1.train.CheckpointSaverHook(folder, save_steps=4, saver=v1.train.Saver(max_to_keep=3)),
                 v1.train.StepCounterHook(every_n_steps=3, output_dir=folder),
                 v1.train.SummarySaverHook(save_steps=3, output_dir=folder, summary_op=v1.summary.merge_all()),
                 v1.train.ProfilerHook(save_steps=3, output_dir=folder)]
        creator = v1.train.ChiefSessionCreator(checkpoint_dir=folder)
        with v1.train.MonitoredSession(session_creator=creator, hooks=hooks) as session:
            while not session.should_stop():
                session.run(graph.get_operation_by_name("train"))
    v1.summary.FileWriterCache.clear()


def our_loop(tf, folder, steps):
    import ctypes
    import hooks_lib as h
    _, serialised = counting(tf)
    text, every = folder.encode(), h.Every(steps=3)
    summaries = (h.TEXT * 1)(b"w0:0")
    hooks = [h.ready(h.lib.mf_hook_stop_at_step, 0, steps),
             h.ready(h.lib.mf_hook_checkpoint, text, h.Every(steps=4), 3),
             h.ready(h.lib.mf_hook_step_counter, every, text),
             h.ready(h.lib.mf_hook_summary, ctypes.byref(h.SummaryOptions(
                 dir=text, every=every, summaries=summaries, n_summaries=1, graph=True))),
             h.ready(h.lib.mf_hook_profiler, text, every)]
    session = h.Monitored(serialised, hooks, checkpoint_dir=folder)
    while not session.should_stop():
        session.run("train")
    last = session.fetch("w/Read/ReadVariableOp:0")
    session.close()
    for hook in hooks:
        h.lib.mf_hook_free(ctypes.byref(hook))
    return last


def written(tf, folder):
    """What a loop leaves behind: checkpoints, traces, steps by tag."""
    a = accumulate(folder)
    steps = {t: [s.step for s in a.Scalars(t)] for t in sorted(a.Tags()["scalars"])}
    return dict(checkpoints=names_in(folder, "model.ckpt-*.index"), traces=names_in(folder, "timeline-*.json"),
                steps=steps, latest=os.path.basename(tf.train.latest_checkpoint(folder)))


def compare(ours, theirs, go_on):
    """TensorFlow reads the step concurrently with the update, so its summaries and traces are sometimes a step early or
    late; Meshflow's are exactly every third step. Its second saver does not see the files of the first."""
    yield from differ("latest checkpoint", ours["latest"], theirs["latest"])
    yield from differ("checkpoints", ours["checkpoints"], theirs["checkpoints"][:3])
    yield from differ("steps of the counter", ours["steps"]["global_step/sec"], theirs["steps"]["global_step/sec"])
    yield from differ("tags", list(ours["steps"]), list(theirs["steps"]))
    yield from differ("first summary", ours["steps"]["w0"][0], theirs["steps"]["w0"][0])
    at = [4, 7, 10] + [14, 17, 20] * go_on
    yield from differ("summaries", ours["steps"]["w0"], sorted([1] + at + [11] * go_on))
    yield from differ("traces", ours["traces"], sorted("timeline-%d.json" % i for i in at))


@check_of
def hooks_do_things_at_the_same_steps(tf, np, folder):
    theirs, ours = folder + "/theirs", folder + "/ours"
    for d in theirs, ours:
        os.mkdir(d)
    for go_on in False, True:
        their_loop(tf, theirs, 10)
        last = our_loop(tf, ours, 10)
        time.sleep(1.1)  # TensorFlow names its files by the second, and writes over one of the same
        yield from compare(written(tf, ours), written(tf, theirs), go_on)
    yield from differ("w in our checkpoint", tf.train.load_variable(ours, "w").tolist(), last.tolist())
    # Each resumes from the other's checkpoint.
    before = tf.train.load_variable(theirs, "w")
    after = our_loop(tf, theirs, 5)
    yield from differ("going on from theirs", after.tolist(), (before + [5, 15]).tolist())
    their_loop(tf, ours, 5)
    yield from differ("their going on from ours", tf.train.load_variable(ours, "w").tolist(),
                      (last + [5, 15]).tolist())
    yield from differ("step", int(tf.train.load_variable(ours, "global_step")), 25)
