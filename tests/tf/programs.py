# SPDX-License-Identifier: Apache-2.0
"""Client programs (corpus/) with a tf.compat.v1.Session that is Meshflow's, and the answers TensorFlow's
own servers gave them (corpus/expected/)."""
import glob
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = os.path.join(HERE, "corpus")
KINDS = {"local1": [("local", 1)], "worker1": [("worker", 1)], "w2": [("worker", 2)],
         "ps1w1": [("ps", 1), ("worker", 1)], "ps1w2": [("ps", 1), ("worker", 2)],
         "ps2w2": [("ps", 2), ("worker", 2)]}
SECONDS = 120


class Runner:
    """Runs programs one after the other, in children of one process that has TensorFlow loaded."""

    def __init__(self):
        self.process = self.tasks = None

    def start_tasks(self, cluster, tasks=None):
        """The addresses of servers of TensorFlow's; jobs: {name: number}."""
        self.tasks = self.tasks or Tasks()
        self.tasks.start(cluster, tasks)

    def run(self, path, cluster, scratch, target="grpc://127.0.0.1:1", how="here"):
        """(exit status or None after too long, stdout, stderr)"""
        if not self.process:
            self.process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, "local_session.py"), "--serve"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self.process.stdin.write(json.dumps(
            [how, path, target, json.dumps(cluster), scratch]).encode() + b"\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.stop()
        return (json.loads(line)[1] if line else None, _read(scratch, "stdout"),
                _read(scratch, "stderr"))

    def stop(self):
        if self.process:
            os.killpg(self.process.pid, signal.SIGKILL)  # with the child it may have
            self.process.wait()
            self.process = None
        if self.tasks:
            self.tasks.stop()
            self.tasks = None


def _read(folder, name):
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


# Programs that only the long sweep runs by themselves; servers get them, too.
LONG = {"04_reductions", "08_variables_ref", "09_variables_resource", "11_random_seeded", "30_cnn_train",
        "34_faster_rcnn_ops", "42_control_flow_v2", "44_queues", "48_embedding_sparse", "91_dead_branches_v1",
        "92_dead_branches_v2", "93_late_reads"}


def everything():
    return {os.path.basename(p)[:-3] for p in glob.glob(os.path.join(CORPUS, "[0-9]*.py"))}


def applicable(soak=False):
    return sorted(everything() - set(NOT_APPLICABLE) - (set() if soak else LONG))


def at_theirs(soak=False):
    return REMOTE + (LONG_REMOTE if soak else [])


def served(soak=False):
    return sorted(everything()) if soak else SERVED



# Programs of the first fifty that need a server, and for what.
SHARED = "several sessions share the variables of a server"
NOT_APPLICABLE = {
    "10_extend_and_sessions": SHARED,
    "21_seed004_standalone": "asks for the devices of a server",
    "22_seed004_multimachine": SHARED,
    "23_ps_async_lockstep": SHARED,
    "24_ps_async_threads": SHARED,
    "25_sync_replicas": SHARED,
    "27_collective_masters": "collectives between two tasks",
    "28_collective_allreduce": "collectives between two tasks",
    "50_partial_run": "partial runs",
    "53_raw_master_rpc": "gRPC without a client",
    "54_run_metadata": "RunMetadata",
    "75_collective_callables": "collectives between two tasks",
    "94_sync_replicas_sparse": SHARED,
}
# Programs that a server of ours answers, with TensorFlow's own sessions.
SERVED = ["10_extend_and_sessions", "22_seed004_multimachine", "25_sync_replicas", "27_collective_masters",
          "28_collective_allreduce", "46_tfdata", "50_partial_run", "52_errors", "53_raw_master_rpc",
          "54_run_metadata", "57_monitored_session", "68_cross_task_while", "70_concurrent_steps",
          "75_collective_callables", "91_dead_branches_v1", "92_dead_branches_v2", "93_late_reads",
          "94_sync_replicas_sparse"]
# Answers of programs that a session without devices cannot give.
NEEDS_PLACEMENT = {"52_errors": ["bad_device", "no_gpu", "unreachable"]}
# Meshflow's client fails with UNAVAILABLE and the reason, where TensorFlow's only reports a timeout.
SAYS_WHY = {"52_errors": ["unreachable"]}


def not_applicable():
    return sorted(NOT_APPLICABLE.items())


def differences(want, got, tol, path=""):
    if isinstance(want, dict) and isinstance(got, dict):
        bad = [] if set(want) == set(got) else [
            "%s: keys %s" % (path, sorted(set(want) ^ set(got)))]
        return bad + [d for k in want if k in got
                      for d in differences(want[k], got[k], tol, path + "." + k)]
    if isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            return ["%s: length %d, expected %d" % (path, len(got), len(want))]
        return [d for i, (a, b) in enumerate(zip(want, got))
                for d in differences(a, b, tol, "%s[%d]" % (path, i))]
    numbers = isinstance(want, (int, float)) and isinstance(got, (int, float))
    if not numbers or isinstance(want, bool) or isinstance(got, bool):
        return [] if want == got else ["%s: %r, expected %r" % (path, got, want)]
    return [] if abs(want - got) <= tol + tol * 10 * abs(want) else [
        "%s: %s, expected %s" % (path, got, want)]


def free_cluster(jobs):
    """{job: addresses} for {job: number}."""
    sockets = {job: [socket.create_server(("127.0.0.1", 0)) for _ in range(n)] for job, n in jobs.items()}
    cluster = {job: ["127.0.0.1:%d" % s.getsockname()[1] for s in ss] for job, ss in sockets.items()}
    for s in sum(sockets.values(), []):
        s.close()
    return cluster


def first_worker(cluster):
    return "grpc://" + (cluster.get("worker") or cluster["local"])[0]


def tasks_of(cluster):
    return [(job, i) for job in cluster for i in range(len(cluster[job]))]


class Servers:
    """`meshflow server` for each of these tasks (None: of all)."""

    def __init__(self, cluster, scratch, tasks=None):
        self.processes = [
            subprocess.Popen([os.environ["MESHFLOW"], "server", "--cluster", json.dumps(cluster), "--job_name", job,
                              "--task_index", str(i), "--allow-dir", scratch], stdout=subprocess.PIPE, text=True)
            for job, i in tasks or tasks_of(cluster)]
        for p in self.processes:
            p.stdout.readline()

    def stop(self):
        """0: all have ended well."""
        for p in self.processes:
            p.terminate()
        return max(p.wait(SECONDS) for p in self.processes)


def sizes(cluster):
    return {job: len(addresses) for job, addresses in cluster.items()}


def serve(name, runner):
    """The same, at servers of ours."""
    return run(name, runner, run_served)


def run_served(runner, path, cluster, scratch):
    cluster = free_cluster(sizes(cluster))
    servers = Servers(cluster, scratch)
    try:
        status, out, err = runner.run(path, cluster, scratch, first_worker(cluster), "theirs")
    finally:
        ended = servers.stop()
    return ended or status, out, err


# Programs at clusters in which these tasks are ours, and the others TensorFlow's.
PS, WORKERS = [("ps", 0)], [("worker", 0), ("worker", 1)]
MIXED = {"23_ps_async_lockstep, our parameter server": PS,
         "23_ps_async_lockstep, our workers": WORKERS,
         "25_sync_replicas, our parameter server": PS,
         "25_sync_replicas, our workers": WORKERS,
         "27_collective_masters, our first worker": WORKERS[:1],
         "27_collective_masters, our second worker": WORKERS[1:],
         "28_collective_allreduce, our first worker": WORKERS[:1],
         "28_collective_allreduce, our second worker": WORKERS[1:],
         "68_cross_task_while, our first worker": WORKERS[:1],
         "68_cross_task_while, our second worker": WORKERS[1:],
         "75_collective_callables, our first worker": WORKERS[:1],
         "75_collective_callables, our second worker": WORKERS[1:],
         "91_dead_branches_v1, our second worker": WORKERS[1:],
         "93_late_reads, our parameter server": PS,
         "93_late_reads, our workers": WORKERS,
         "94_sync_replicas_sparse, our parameter server": PS,
         "94_sync_replicas_sparse, our workers": WORKERS}


def mixed(name, runner):
    """The same, at servers of ours and of TensorFlow's."""
    def way(runner, path, cluster, scratch):
        ours = MIXED[name]
        cluster = free_cluster(sizes(cluster))
        runner.start_tasks(cluster, [t for t in tasks_of(cluster) if t not in ours])
        servers = Servers(cluster, scratch, ours)
        try:
            return runner.run(path, cluster, scratch, first_worker(cluster), "theirs")
        finally:
            servers.stop()
    return run(name.split(",")[0], runner, way)


# Programs at servers of TensorFlow's, with sessions of ours.
REMOTE = ["10_extend_and_sessions", "21_seed004_standalone", "52_errors", "57_monitored_session"]
LONG_REMOTE = ["02_feed_dtypes", "12_opt_sgd", "29_model_parallel", "41_control_flow_v1", "55_saver",
               "70_concurrent_steps"]


class Tasks:
    """Servers of TensorFlow's, one set at a time, children of one process that has it loaded."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "local_session.py"), "--tasks"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def start_new(self, jobs):
        """jobs: {name: number}. Returns the addresses."""
        cluster = free_cluster(jobs)
        self.start(cluster)
        return cluster

    def start(self, cluster, tasks=None):
        """These tasks (None: all) of {job: addresses}."""
        self.say({"cluster": cluster, "tasks": tasks_of(cluster) if tasks is None else tasks})

    def say(self, what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("TensorFlow's servers do not start")

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def run_remote(runner, path, cluster, scratch):
    cluster = free_cluster(sizes(cluster))
    runner.start_tasks(cluster)
    return runner.run(path, cluster, scratch, first_worker(cluster), "remote")


def remote(name, runner):
    """The same, by a client of ours at servers of TensorFlow's."""
    return run(name, runner, run_remote)


def run(name, runner, way=Runner.run):
    """An outcome like the workers'."""
    path = os.path.join(CORPUS, name + ".py")
    with open(path, encoding="utf-8") as f:
        head = f.read(600)
    kind = re.search(r"# cluster: (\w+)", head)[1]
    m = re.search(r"# tol: ([\d.e+-]+)", head)
    tolerance = float(m[1]) if m else 1e-5
    m = re.search(r"# ignore: ([\w,]+)", head)
    ignore = set(m[1].split(",")) if m else set()
    ignore |= set((SAYS_WHY if way is run_remote else NEEDS_PLACEMENT if way is Runner.run else {}).get(name, ()))
    cluster = {job: ["127.0.0.1:%d" % (1 + i) for i in range(n)] for job, n in KINDS[kind]}
    scratch = tempfile.mkdtemp(prefix="meshflow-corpus")
    try:
        status, out, err = way(runner, path, cluster, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if status is None:
        return dict(failures=["no answer within %d s" % SECONDS])
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if status or not lines:
        errors = re.findall(r"^\S*(?:Error|Exception)\b.*(?:\n\s+\[\[.*)?", err, re.M)
        return dict(failures=["ended with %d: %s" % (status, "\n".join(errors[:3]) or
                                                     err.strip()[-500:])])
    with open(os.path.join(CORPUS, "expected", name + ".json"), encoding="utf-8") as f:
        want = json.load(f)
    got = json.loads(lines[-1])
    keep = [{k: v for k, v in d.items() if k not in ignore} for d in (want, got)]
    return dict(failures=differences(*keep, tolerance)[:8])
