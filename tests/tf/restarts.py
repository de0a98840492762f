# SPDX-License-Identifier: Apache-2.0
"""Servers that are killed and started again under TensorFlow's clients: the errors that these recover from, and that
they do.

Usage: restarts.py NAME CLUSTER SCRATCH    one of the checks, in a process of its own (run.py starts them)."""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import programs

SECONDS = 60  # against hanging
PS_AND_WORKER, PS_AND_TWO = {"ps": 1, "worker": 1}, {"ps": 1, "worker": 2}
CHECKS, LONG, THEIRS = {}, [], {}


def check_of(jobs, theirs=(), long=False):
    """Registers a check: it is called with a cluster of these sizes, and yields errors. theirs: tasks that are TensorFlow's,
    the others are Meshflow's. long: only in the long sweep."""
    def register(fn):
        name = fn.__name__.replace("_", " ")
        CHECKS[name], THEIRS[name] = (fn, jobs), list(theirs)
        if long:
            LONG.append(name)
        return fn
    return register


def names(soak=False):
    return [n for n in CHECKS if soak or n not in LONG]


def check(name, runner):
    """An outcome like the workers'."""
    cluster = programs.free_cluster(CHECKS[name][1])
    if THEIRS[name]:
        runner.start_tasks(cluster, THEIRS[name])
    with tempfile.TemporaryDirectory(prefix="meshflow-restarts") as scratch:
        status, out, err = runner.run(os.path.abspath(__file__), cluster, scratch, name, "theirs")
    if status != 0:
        return dict(failures=["ended with %s: %s" % (status, err.strip()[-1500:])])
    return dict(failures=json.loads(out.splitlines()[-1]))


# ---- servers ----

class Cluster:
    """Its tasks, those of ours as processes."""

    def __init__(self, addresses, scratch, theirs):
        self.addresses, self.scratch, self.running = addresses, scratch, {}
        for task in programs.tasks_of(addresses):
            if task not in theirs:
                self.start(*task)

    def start(self, job, index):
        p = subprocess.Popen([os.environ["MESHFLOW"], "server", "--cluster", json.dumps(self.addresses), "--job_name", job,
                              "--task_index", str(index), "--allow-dir", self.scratch], stdout=subprocess.PIPE, text=True)
        if not p.stdout.readline():
            raise RuntimeError("%s %d does not start" % (job, index))
        self.running[job, index] = p

    def kill(self, job, index):
        p = self.running.pop((job, index))
        p.kill()
        p.wait()

    def restart(self, job, index, pause=0.0):
        self.kill(job, index)
        time.sleep(pause)
        self.start(job, index)

    def target(self, job="worker", index=0):
        return "grpc://" + self.addresses[job][index]

    def stop(self):
        for task in list(self.running):
            self.kill(*task)


# ---- a model whose weights are known for every step ----

RATE = 0.1


def samples():
    import numpy as np
    r = np.random.RandomState(3)
    x = r.randn(32, 4).astype(np.float32)
    return x, x.dot(np.array([[1.], [-2.], [0.5], [3.]], np.float32))


def weights_after(steps):
    import numpy as np
    x, y = samples()
    w = np.zeros((4, 1), np.float32)
    for _ in range(steps):
        w -= RATE * (2. / len(x)) * x.T.dot(x.dot(w) - y)
    return w


class Model:
    """Variables on the parameter server, the rest on a worker."""

    def __init__(self, tf, cluster, worker=0, optimizer=lambda o: o, rows=slice(None)):
        import numpy as np
        x, y = samples()
        setter = tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % worker,
                                                cluster=tf.train.ClusterSpec(cluster.addresses))
        with tf.device(setter):
            xp, yp = tf.placeholder(tf.float32, [None, 4], "x"), tf.placeholder(tf.float32, [None, 1], "y")
            self.w = tf.get_variable("w", initializer=np.zeros((4, 1), np.float32))
            self.step = tf.train.get_or_create_global_step()
            loss = tf.reduce_mean(tf.square(tf.matmul(xp, self.w) - yp))
            self.optimizer = optimizer(tf.train.GradientDescentOptimizer(RATE))
            self.train = self.optimizer.minimize(loss, global_step=self.step)
        self.feed = {xp: x[rows], yp: y[rows]}


def differ(what, got, want):
    import numpy as np
    if not np.allclose(got, want, atol=1e-5):
        yield "%s: %s, expected %s" % (what, np.ravel(got).tolist(), np.ravel(want).tolist())


def error_of(tf, fn):
    """The class of the error that fn() ends with, and its message."""
    try:
        fn()
    except tf.errors.OpError as e:
        return type(e).__name__, str(e)
    return "nothing", ""


def when_it_is_back(tf, fn):
    """The same, once the server's restart is detected: gRPC reconnects about once a second."""
    got, end = ("UnavailableError", ""), time.time() + SECONDS
    while got[0] == "UnavailableError" and time.time() < end:
        got = error_of(tf, fn)
        time.sleep(0.05)
    return got


def expect(what, got, name, *words):
    if got[0] != name or any(w not in got[1] for w in words):
        yield "%s: %s %s, expected %s with %s" % (what, *got, name, words)


# ---- plain sessions ----

def limited(tf, **more):
    return tf.ConfigProto(operation_timeout_in_ms=SECONDS * 1000, **more)


def errors_of_a_lost_server(tf, cluster, named=True):
    """Lost server: UNAVAILABLE. Restarted: ABORTED, until there is a new session, whose variables are uninitialized.
    Meshflow's master names the lost server (named); TensorFlow's may only report a closed socket."""
    address = (cluster.addresses["ps"][0],) if named else ()
    model = Model(tf, cluster)
    init = tf.global_variables_initializer()
    with tf.Session(cluster.target(), config=limited(tf)) as sess:
        sess.run(init)
        sess.run(model.train, model.feed)
        cluster.kill("ps", 0)
        for _ in range(2):
            yield from expect("gone", error_of(tf, lambda: sess.run(model.train, model.feed)), "UnavailableError",
                              *address)
        cluster.start("ps", 0)
        for _ in range(2):
            yield from expect("back", when_it_is_back(tf, lambda: sess.run(model.train, model.feed)), "AbortedError",
                              "restarted", "/job:ps/replica:0/task:0")
    with tf.Session(cluster.target(), config=limited(tf)) as sess:
        yield from expect("without values", error_of(tf, lambda: sess.run(model.train, model.feed)),
                          "FailedPreconditionError", "w")
        sess.run(init)
        for _ in range(3):
            sess.run(model.train, model.feed)
        yield from differ("weights", sess.run(model.w), weights_after(3))


@check_of(PS_AND_WORKER)
def a_parameter_server_that_is_restarted_gives_errors_to_recover_from(tf, cluster):
    yield from errors_of_a_lost_server(tf, cluster)


@check_of(PS_AND_WORKER, theirs=[("worker", 0)])
def a_parameter_server_that_is_restarted_under_a_worker_of_TensorFlows(tf, cluster):
    yield from errors_of_a_lost_server(tf, cluster, named=False)


@check_of(PS_AND_WORKER)
def a_step_that_waits_ends_with_the_server_it_waits_for(tf, cluster):
    with tf.device("/job:ps/task:0"):
        got = tf.identity(tf.queue.FIFOQueue(1, tf.float32).dequeue())
    with tf.device("/job:worker/task:0"):
        here = got + 1
    ended = []
    with tf.Session(cluster.target(), config=limited(tf)) as sess:
        thread = threading.Thread(target=lambda: ended.append(error_of(tf, lambda: sess.run(here))))
        thread.start()
        time.sleep(0.5)
        cluster.restart("ps", 0)
        thread.join()
        yield from expect("a step that waited", ended[0], "UnavailableError")


@check_of({"ps": 2, "worker": 1})
def a_new_run_does_not_wait_for_a_stalled_server_that_it_does_not_use(tf, cluster):
    values = []
    for i in range(2):
        with tf.device("/job:ps/task:%d" % i):
            values.append(tf.constant(i + 1.) * tf.random.uniform([], 1, 1.1))
    ended = []
    with tf.Session(cluster.target(), config=limited(tf)) as sess:
        sess.run(values)
        stands = cluster.running["ps", 1]
        stands.send_signal(signal.SIGSTOP)
        thread = threading.Thread(target=lambda: ended.append(sess.run(values[1])))
        thread.start()
        time.sleep(0.5)
        if not 1 <= sess.run(values[0]) < 1.1 or ended:
            yield "a run of the other one: %s" % ended
        stands.send_signal(signal.SIGCONT)
        thread.join(SECONDS)
        if not ended or not 2 <= ended[0] < 2.2:
            yield "a run of the one that stood still: %s" % ended


@check_of(PS_AND_WORKER)
def a_master_that_is_restarted_has_lost_its_sessions_and_no_weights(tf, cluster):
    model = Model(tf, cluster)
    sess = tf.Session(cluster.target(), config=limited(tf))
    sess.run(tf.global_variables_initializer())
    sess.run(model.train, model.feed)
    cluster.restart("worker", 0)
    for end in (lambda: sess.run(model.train, model.feed), sess.close):
        yield from expect("its session", when_it_is_back(tf, end), "AbortedError", "is not found")
    with tf.Session(cluster.target(), config=limited(tf)) as sess:
        sess.run(model.train, model.feed)
        yield from differ("weights", sess.run(model.w), weights_after(2))


@check_of(PS_AND_WORKER)
def sessions_of_masters_that_were_killed_do_not_pile_up(tf, cluster):
    model = Model(tf, cluster)
    cluster.kill("ps", 0)
    os.environ["MESHFLOW_SERVER_SESSIONS"] = "3"  # one of them is shared by all
    cluster.start("ps", 0)
    for _ in range(4):
        sess = tf.Session(cluster.target(), config=limited(tf))
        sess.run(tf.global_variables_initializer())
        sess.run(model.train, model.feed)
        cluster.restart("worker", 0)
    with tf.Session(cluster.target(), config=limited(tf)) as sess:
        sess.run(model.train, model.feed)
        yield from differ("weights", sess.run(model.w), weights_after(2))


# ---- monitored sessions ----

class Disturb:
    """Calls functions after given steps, once each: {step: function}."""

    def __new__(cls, tf, model, after):
        class Hook(tf.train.SessionRunHook):
            created = 0

            def after_create_session(self, session, coord):
                self.created += 1

            def before_run(self, context):
                return tf.train.SessionRunArgs(model.step)

            def after_run(self, context, values):
                do = [after.pop(s) for s in sorted(after) if s <= values.results]
                for fn in do:
                    fn()
        return Hook()


def monitored(tf, cluster, after, last=12):
    """Trains with one client up to the last step, with restarts. Yields errors."""
    model = Model(tf, cluster)
    hook = Disturb(tf, model, after)
    final = tf.train.FinalOpsHook([model.w, model.step])
    disturbances = len(after)
    with tf.train.MonitoredTrainingSession(
            cluster.target(), checkpoint_dir=cluster.scratch + "/ckpt", save_checkpoint_steps=2,
            hooks=[tf.train.StopAtStepHook(last_step=last), hook, final], config=limited(tf)) as sess:
        while not sess.should_stop():
            sess.run(model.train, model.feed)
    w, step = final.final_ops_values
    yield from differ("weights after step %d" % step, w, weights_after(step))
    if step != last or hook.created < 2 or after:
        yield "step %d, %d sessions, %d of %d disturbances left" % (step, hook.created, len(after), disturbances)


@check_of(PS_AND_WORKER)
def a_monitored_session_continues_after_its_servers_were_restarted_one_by_one(tf, cluster):
    yield from monitored(tf, cluster, {3: lambda: cluster.restart("ps", 0), 6: lambda: cluster.restart("worker", 0)})


@check_of(PS_AND_WORKER, long=True)
def a_monitored_session_continues_after_all_servers_were_lost_at_once(tf, cluster):
    def both():
        cluster.kill("ps", 0)
        cluster.restart("worker", 0, pause=1)
        threading.Timer(3, cluster.start, ["ps", 0]).start()
    yield from monitored(tf, cluster, {5: both})


@check_of(PS_AND_WORKER, theirs=[("worker", 0)], long=True)
def a_monitored_session_at_a_TensorFlow_worker_continues_with_our_parameter_server(tf, cluster):
    yield from monitored(tf, cluster, {3: lambda: cluster.restart("ps", 0), 7: lambda: cluster.restart("ps", 0, 1)})


# ---- two clients ----

def worker_session(tf, cluster, index, hooks, scaffold=None):
    """The other client's, which looks more often than every 30 s whether the chief is ready."""
    class Patient(tf.train.WorkerSessionCreator):
        def _get_session_manager(self):
            manager = super()._get_session_manager()
            manager._recovery_wait_secs = 0.2
            return manager
    return tf.train.MonitoredSession(
        Patient(scaffold, cluster.target("worker", index), filters(tf, index), SECONDS), hooks, stop_grace_period_secs=1)


def filters(tf, index):
    return limited(tf, device_filters=["/job:ps", "/job:worker/task:%d" % index])


class Client(threading.Thread):
    """A client of between-graph replication: trains until the last step. Client 0 is the chief, which saves."""

    def __init__(self, tf, cluster, index, last, synchronous):
        super().__init__(daemon=True)
        self.tf, self.cluster, self.index, self.last, self.synchronous = tf, cluster, index, last, synchronous
        self.seen, self.runs, self.sessions, self.error = 0, 0, 0, None
        self.start()

    def session(self, model):
        tf, cluster = self.tf, self.cluster
        hooks = [tf.train.StopAtStepHook(last_step=self.last), self.count()]
        if self.synchronous:
            hooks.append(model.optimizer.make_session_run_hook(self.index == 0, num_tokens=0))
        if self.index > 0:
            return worker_session(tf, cluster, self.index, hooks)
        return tf.train.MonitoredTrainingSession(
            cluster.target(), checkpoint_dir=cluster.scratch + "/ckpt", save_checkpoint_steps=2, hooks=hooks,
            config=filters(tf, 0), stop_grace_period_secs=1)

    def count(self):
        client = self

        class Hook(self.tf.train.SessionRunHook):
            def after_create_session(self, session, coord):
                client.sessions += 1
        return Hook()

    def optimizer(self, plain):
        if not self.synchronous:
            return plain
        return self.tf.train.SyncReplicasOptimizer(plain, replicas_to_aggregate=2, total_num_replicas=2)

    def run(self):
        try:
            with self.tf.Graph().as_default():
                rows = slice(self.index * 16, self.index * 16 + 16)
                model = Model(self.tf, self.cluster, self.index, self.optimizer, rows)
                with self.session(model) as sess:
                    while not sess.should_stop():
                        self.seen = sess.run([model.step, model.train], model.feed)[0]
                        self.runs += 1
                        time.sleep(0.02)
        except Exception as e:  # pylint: disable=broad-except
            self.error = e


def two_clients(tf, cluster, tasks, last, synchronous):
    """These tasks are restarted while both clients train. Yields errors."""
    clients = [Client(tf, cluster, i, last, synchronous) for i in range(2)]
    for n, (job, index) in enumerate(tasks):
        until(lambda: min(c.seen for c in clients) >= 5 * (n + 1) or not all(c.is_alive() for c in clients))
        before = sum(c.sessions for c in clients)
        cluster.restart(job, index, pause=0.3)
        lost = 2 if job == "ps" else 1
        until(lambda: sum(c.sessions for c in clients) >= before + lost or not all(c.is_alive() for c in clients))
    for c in clients:
        c.join(SECONDS)
        if c.error or c.is_alive():
            yield "client %d, at step %d, with %d sessions: %r" % (c.index, c.seen, c.sessions, c.error or "it hangs")
        if c.sessions < 2 and {("ps", 0), ("worker", c.index)} & set(tasks):
            yield "client %d has had %d sessions" % (c.index, c.sessions)
    with tf.Graph().as_default(), tf.Session(cluster.target(), config=limited(tf)) as sess:
        model = Model(tf, cluster)
        w, step = sess.run([model.w, model.step])
    if step < last:
        yield "the last step is %d" % step
    if synchronous and tasks == [("ps", 0)]:  # otherwise the token of a lost worker allows the other one to push twice
        yield from differ("weights after step %d" % step, w, weights_after(step))
    elif abs(w - weights_after(1000)).max() > 0.05:
        yield "weights after step %d: %s" % (step, w.ravel().tolist())


def until(fn):
    end = time.time() + SECONDS
    while not fn() and time.time() < end:
        time.sleep(0.02)


@check_of(PS_AND_TWO)
def two_asynchronous_clients_continue_after_the_parameter_server_was_restarted(tf, cluster):
    yield from two_clients(tf, cluster, [("ps", 0)], 150, False)


@check_of(PS_AND_TWO)
def two_synchronous_clients_continue_after_the_parameter_server_was_restarted(tf, cluster):
    yield from two_clients(tf, cluster, [("ps", 0)], 20, True)


@check_of(PS_AND_TWO, long=True)
def two_synchronous_clients_continue_after_a_worker_was_restarted(tf, cluster):
    yield from two_clients(tf, cluster, [("worker", 1)], 150, True)


@check_of(PS_AND_TWO, long=True)
def two_asynchronous_clients_continue_after_every_server_was_restarted(tf, cluster):
    yield from two_clients(tf, cluster, [("worker", 1), ("ps", 0), ("worker", 0)], 400, False)


@check_of({"ps": 2, "worker": 2}, long=True)
def two_asynchronous_clients_continue_while_tasks_are_killed_repeatedly(tf, cluster):
    rng = random.Random(7)
    clients = [Client(tf, cluster, i, 100000000, False) for i in range(2)]
    for n in range(20):
        until(lambda: all(c.runs > 0 for c in clients))
        time.sleep(rng.random())
        task = rng.choice(sorted(cluster.running))
        cluster.restart(*task, pause=rng.choice((0, 0, 1.5)))
        before = [c.runs for c in clients]
        until(lambda: all(c.runs > b + 3 for c, b in zip(clients, before)))
        for c, b in zip(clients, before):
            if c.error or c.runs <= b + 3:
                yield "after kill %d, of %s: client %d: %r" % (n, task, c.index, c.error or "it hangs")
                return


# ---- a check in a process of its own ----

def main():
    import tensorflow.compat.v1 as tf
    name, addresses, scratch = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.FATAL)
    cluster = Cluster(addresses, scratch, THEIRS[name])
    try:
        failures = list(CHECKS[name][0](tf, cluster))
    finally:
        cluster.stop()
    print(json.dumps(failures), flush=True)


if __name__ == "__main__":
    main()
