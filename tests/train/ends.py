#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How jobs end: exit codes, restarts, and the last checkpoint.

Usage: ends.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`.
"""
import glob
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

import harness
from harness import STOPPED, check, test


class Bench(harness.Trainings):
    def __init__(self, args):
        super().__init__(args)
        self.env = {**os.environ, "MESHFLOW_RUN_DIR": self.out("boards"), "MESHFLOW_SPOOL": self.out("jobs")}
        os.mkdir(self.out("boards"), 0o700)

    def end(self, command, limit=None):
        """(exit code, standard output, standard error); limit: bytes that a file may have."""
        before = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # noqa: E731
        r = subprocess.run([self.program, *command], capture_output=True, text=True, timeout=120, env=self.env,
                           preexec_fn=before if limit else None)
        return r.returncode, r.stdout, r.stderr

    def begin(self, *command):
        p = subprocess.Popen([self.program, *command], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True)
        self.running.append(p)
        return p

    def forever(self, out, *more):
        return self.train("--out", out, "--save-steps", "10", *more, steps=1000000)


def results(out):
    return [json.loads(line[line.index("{"):]) for line in out.splitlines() if "weights_sha256" in line]


def checkpoints(folder):
    return sorted(int(re.search(r"-(\d+)\.index", f).group(1)) for f in glob.glob(os.path.join(folder, "*.index")))


LAUNCH = ["launch", "--workers", "2", "--json"]


@test
def a_stopped_training_ends_with_75_and_prints_how_to_resume(b):
    for number in signal.SIGTERM, signal.SIGINT:
        for launch in [], [*LAUNCH, "--"], [*LAUNCH, "--masters", "1", "--"]:
            out = b.out("stopped")
            p = b.begin(*launch, *b.forever(out))
            harness.await_checkpoint(out)
            p.send_signal(number)
            text, err = p.communicate(timeout=60)
            check(p.returncode == STOPPED, "%s: %d: %s" % (launch, p.returncode, err))
            result = results(text)[-1]
            check(result["ended"] == "stopped" and "was stopped after step" in err and "--resume" in err, text + err)
            check(result["steps"] in checkpoints(out), "no checkpoint of step %d" % result["steps"])
            b.run(["ckpt", "verify", out])
            for f in glob.glob(os.path.join(out, "*")):
                os.remove(f)


@test
def a_task_that_is_stopped_while_it_waits_for_its_store_ends_with_75(b):
    cluster = {"worker": ["localhost:1"], "master": ["localhost:2"]}
    b.env["MESHFLOW_STORE"] = "etcd://127.0.0.1:1/a"
    for kind in "worker", "master":
        b.env["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": kind, "index": 0}})
        p = b.begin(*b.train(), "--timeout", "60", "--param", "stall_report_ms=100")
        said = ""
        while "waiting for" not in said:  # an end of the output is a failure, too
            line = p.stderr.readline()
            check(line, "the %s has ended: %s" % (kind, said))
            said += line
        p.send_signal(signal.SIGTERM)
        _, err = p.communicate(timeout=60)
        check(p.returncode == STOPPED, "%s: %d: %s" % (kind, p.returncode, said + err))
    del b.env["TF_CONFIG"], b.env["MESHFLOW_STORE"]


@test
def a_task_that_is_stopped_before_the_others_join_ends_with_75(b):
    """A parameter server, too: the launcher would have to kill it."""
    cluster = {"worker": ["localhost:1", "localhost:2"], "ps": ["localhost:3"]}
    env = {"MESHFLOW_STORE": "file:" + b.out("store"), "MESHFLOW_LEASE_MS": "300", "MESHFLOW_STALL_REPORT_MS": "100"}
    b.env.update(env)
    for kind in "ps", "worker":
        for number in signal.SIGTERM, signal.SIGINT:
            b.env["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": kind, "index": 0}})
            p = b.begin(*b.train("--timeout", "100"))
            said = ""
            while "to join" not in said:
                line = p.stderr.readline()
                check(line, "the %s has ended: %s" % (kind, said))
                said += line
            p.send_signal(number)
            _, err = p.communicate(timeout=30)
            check(p.returncode == STOPPED and "was asked to end while it waited" in err,
                  "%s: %d: %s" % (kind, p.returncode, said + err))
    for name in [*env, "TF_CONFIG"]:
        del b.env[name]


@test
def a_new_training_in_the_store_of_a_finished_one_is_reported(b):
    """It would exit with 0, like a task that joins too late, and leave no result."""
    store = "file:" + b.out("store")

    def train(steps):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            cluster = {"worker": ["localhost:%d" % one.getsockname()[1]], "ps": []}
        return b.end(b.train("--store", store, "--cluster", json.dumps(cluster), "--job-name", "worker", "--task-index",
                             "0", steps=steps))

    code, text, err = train(20)
    check(code == 0 and len(results(text)) == 1, "%d: %s" % (code, err))
    code, text, err = train(20)
    check(code == 0 and not results(text) and "another --store" in err, "%d: %s" % (code, err))
    code, text, err = train(30)
    check(code == 2 and "--steps is '20' for that job and '30' for worker 0" in err and store in err,
          "%d: %s" % (code, err))


@test
def an_unwritable_log_is_reported_once_and_no_output_is_lost(b):
    text = "x" * 1000
    code, out, err = b.end(["launch", "--no-prefix", "--log-dir", b.out("logs"), "--", "sh", "-c",
                            "for i in $(seq 100); do echo %s; done" % text], limit=50000)
    check(code == 0 and out == 100 * (text + "\n"), "%d: %s" % (code, err))
    check(err.count("the output of worker 0 is no longer written to --log-dir: File too large") == 1, err)


@test
def a_slow_reader_gets_the_complete_output_of_a_launch(b):
    """From a pipe that does not block, as some programs make theirs."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    filled = 0
    try:
        while True:
            filled += os.write(theirs, b"-" * 4096)
    except BlockingIOError:
        pass
    p = subprocess.Popen([b.program, "launch", "--no-prefix", "--", "sh", "-c", "echo all; echo of it; touch '%s'" %
                          b.out("said")], env=b.env, stdout=theirs, stderr=subprocess.PIPE, text=True)
    b.running.append(p)
    os.close(theirs)
    end = time.monotonic() + 60
    while not os.path.exists(b.out("said")):
        check(time.monotonic() < end, "the command does not run")
        time.sleep(0.05)
    with open(ours) as f:
        check(f.read()[filled:] == "all\nof it\n", "some is missing")
    _, err = p.communicate(timeout=60)
    check(p.returncode == 0, "%d: %s" % (p.returncode, err))


@test
def a_job_of_the_daemon_that_is_stopped_is_shown_as_stopped_and_not_done(b):
    daemon = b.begin("queue", "daemon", "--slots", "1")
    out = b.out("run")

    def job(name):
        return {j["job"]: j for j in json.loads(b.end(["queue", "list", "--json"])[1])["jobs"]}[name]

    def wait(name, *states):
        end = time.monotonic() + 60
        while job(name)["state"] not in states:
            check(time.monotonic() < end, "not %s: %s" % (states, job(name)))
            time.sleep(0.05)
        return job(name)

    b.end(["queue", "submit", "--name", "a", "--restarts", "5", "--", b.program, *b.forever(out, "--name", "t")])
    harness.await_checkpoint(out)
    tasks = json.loads(b.end(["job", "status", "--json", "t"])[1])["jobs"][0]["tasks"]
    os.kill(tasks[0]["pid"], signal.SIGTERM)
    a = wait("a", "stopped", "done", "failed")
    check(a["state"] == "stopped" and a["exit_code"] == STOPPED and a["tries"] == 1, str(a))
    code, _, err = b.end(["queue", "attach", "a"])
    check(code == STOPPED, "%d: %s" % (code, err))
    b.end(["queue", "submit", "--name", "b", "--restarts", "5", "--", b.program, *b.train("--optimizer", "adum")])
    got = wait("b", "failed", "done")
    check(got["state"] == "failed" and got["exit_code"] == 2 and got["tries"] == 1, str(got))
    daemon.terminate()
    check(daemon.wait(30) == 0, "the daemon")


@test
def invalid_settings_end_with_2_without_restarts(b):
    for wrong, part in (["--strategy", "mirrored"], "one process"), (["--codec", "fp61"], "fp16"):
        for masters in [], ["--masters", "1"]:
            code, _, err = b.end([*LAUNCH, *masters, "--max-restarts", "1000", "--", *b.train(*wrong)])
            check(code == 2 and part in err and "restart 1" not in err and "restarts it" not in err,
                  "%s: %d: %s" % (masters, code, err))
    for wrong in ["--model", "nlp"], ["--optimizer", "adum"], ["--data", "nowhere"], ["--lr", "high"], ["--lr", "0"], ["--no-option"]:
        code, _, err = b.end([*b.train(steps=2), *wrong])
        check(code == 2, "%s: %d: %s" % (wrong, code, err))
    code, _, err = b.end(["server", "--cluster", "{"])
    check(code == 2, "%d: %s" % (code, err))
    code, _, err = b.end([*b.train("--guard", "off", "--stop", "converged", rate=1e30)])
    check(code == 2 and "diverged" in err, "%d: %s" % (code, err))


@test
def a_job_whose_last_checkpoint_cannot_be_written_has_failed(b):
    kind = dict(steps=60)
    for launch in [], [*LAUNCH, "--max-restarts", "1", "--"], [*LAUNCH, "--ps", "1", "--max-restarts", "1", "--"]:
        out = b.out("full")
        b.run(b.train("--out", out, "--save-steps", "20", steps=20)) # the available space
        code, text, err = b.end([*launch, *b.train("--out", out, "--resume", "--save-steps", "20", **kind)],
                                limit=100000)
        check(code == 1, "%s: %d: %s" % (launch, code, err))
        check("the last checkpoint could not be written" in err and "over" not in err, err)
        check(results(text)[-1]["ended"] == "failed", text)
        check(not launch or "restart 1 of 1" in err, err)
        check(checkpoints(out) == [20], str(checkpoints(out)))
        code, text, err = b.end([*launch, *b.train("--out", out, "--resume", "--save-steps", "20", **kind)])
        check(code == 0 and checkpoints(out)[-1] == 60, "it is not written later: %d %s" % (code, err))
        check(results(text)[-1]["weights_sha256"] == b.sha(**kind), "other weights")
        for f in glob.glob(os.path.join(out, "*")):
            os.remove(f)


def kill_chief(b, name):
    """Once it has done a step."""
    end = time.monotonic() + 60
    while True:
        check(time.monotonic() < end, "it does not begin")
        status = b.end(["job", "status", "--json", name])[1]
        tasks = {t["task"]: t for j in (json.loads(status)["jobs"] if status else []) for t in j["tasks"]}
        if tasks.get("worker 0", {}).get("step", 0) > 0:
            os.kill(tasks["worker 0"]["pid"], signal.SIGKILL)
            return


@test
def a_killed_chief_and_a_full_disk_do_not_end_with_0(b):
    out, kind = b.out("run"), dict(steps=400)
    command = [*LAUNCH, "--max-restarts", "1", "--", *b.train("--out", out, "--resume", "--name", "k", **kind)]
    p = b.begin(*command)
    resource.prlimit(p.pid, resource.RLIMIT_FSIZE, (100000, resource.RLIM_INFINITY)) # tasks inherit it
    kill_chief(b, "k")
    text, err = p.communicate(timeout=60)
    check(p.returncode == 1 and "could not be written" in err, "%d: %s" % (p.returncode, err))
    check(results(text)[-1]["ended"] == "failed" and checkpoints(out) == [], text)
    p = b.begin(*command)
    kill_chief(b, "k")
    text, err = p.communicate(timeout=60)
    check(p.returncode == 0 and checkpoints(out)[-1] == 400, "%d: %s" % (p.returncode, err))
    check(results(text)[-1]["weights_sha256"] == b.sha(**kind), "other weights")


@test
def state_that_is_lost_ends_with_3_and_is_not_restarted(b):
    out = b.out("run")
    b.run(b.train("--out", out, "--save-steps", "20", steps=20))
    for f in glob.glob(os.path.join(out, "*.index")):
        with open(f, "r+b") as index:
            index.truncate(8)
    for launch in [], ["launch", "--max-restarts", "5", "--"]:
        code, _, err = b.end([*launch, *b.train("--out", out, "--resume", steps=30)])
        check(code == 3 and "is complete" in err and "restart" not in err, "%s: %d: %s" % (launch, code, err))


@test
def a_restarted_task_keeps_the_classes_of_its_run(b):
    """A class has disappeared from the file; the other classes would get other numbers."""
    data, out = b.out("classes.csv"), b.out("classes")

    def write(names):
        with open(data + ".new", "w") as f:
            f.write("x,kind\n" + "".join("%g,%s\n" % (i % 7, names[i % 3]) for i in range(90)))
        os.rename(data + ".new", data)

    def classes():
        with open(os.path.join(out, "schema.json")) as f:
            return [c["classes"] for c in json.load(f)["columns"] if "classes" in c]

    write("abc")
    p = b.begin("launch", "--workers", "1", "--max-restarts", "1", "--", b.program, "train", "--model", "mlp", "--data",
                data, "--set", "label=kind", "--steps", "3000", "--save-steps", "100", "--out", out, "--quiet",
                "--json", "--name", "c")
    end = time.monotonic() + 60
    while not (os.path.isdir(out) and checkpoints(out)):
        check(time.monotonic() < end and p.poll() is None, "there is no checkpoint")
        time.sleep(0.01)
    tasks = json.loads(b.end(["job", "status", "--json", "c"])[1])["jobs"][0]["tasks"]
    write("cbb")
    os.kill(tasks[0]["pid"], signal.SIGKILL)
    text, err = p.communicate(timeout=60)
    check(p.returncode == 0, "%d: %s" % (p.returncode, err))
    check("restart 1 of 1" in err, err)
    check(classes() == [["a", "b", "c"]], classes())


@test
def a_new_chief_with_another_folder_keeps_the_files_of_the_run(b):
    """As on another machine: predict and --resume need the model and the classes, too."""
    with open(b.out("d.csv"), "w") as f:
        f.write("x,kind\n" + "".join("%g,%s\n" % (i % 7, "abc"[i % 3]) for i in range(90)))
    train = ["train", "--model", "mlp", "--data", b.out("d.csv"), "--set", "label=kind", "--batch", "9", "--seed", "3",
             "--quiet", "--no-test", "--json"]
    job = [*train, "--steps", "1000000", "--save-steps", "100", "--name", "own", "--store", "file:" + b.out("store")]
    with socket.socket() as one, socket.socket() as two:
        for s in one, two:
            s.bind(("127.0.0.1", 0))
        hosts = ",".join("localhost:%d" % s.getsockname()[1] for s in (one, two))
    tasks = [b.begin(*job, "--worker-hosts", hosts, "--job-name", "worker", "--task-index", str(i), "--out",
                     b.out("own%d" % i)) for i in range(2)]
    harness.await_checkpoint(b.out("own0"))
    tasks[0].kill()
    os.makedirs(b.out("own1"), exist_ok=True)
    harness.await_checkpoint(b.out("own1"))
    tasks[1].terminate()
    text, err = tasks[1].communicate(timeout=60)
    check(tasks[1].returncode == STOPPED, "%d: %s" % (tasks[1].returncode, err))
    steps = results(text)[-1]["steps"] + 50
    b.run(["predict", "--from", b.out("own1"), "--data", b.out("d.csv")])
    again = b.run(["train", "--out", b.out("own1"), "--resume", "--steps", str(steps), *train[7:]])
    whole = b.run([*train, "--steps", str(steps)])
    check(results(again.stdout)[0]["weights_sha256"] == results(whole.stdout)[0]["weights_sha256"], "other weights")


@test
def a_job_that_restarts_from_step_0_reports_it(b):
    """All tasks are lost before there is a checkpoint."""
    kind = dict(steps=3000)
    for launch in ["launch", "--json"], LAUNCH:
        p = b.begin(*launch, "--max-restarts", "3", "--", *b.train("--name", "r", **kind))
        status = lambda: b.end(["job", "status", "--json", "r"])[1]  # noqa: E731
        end = time.monotonic() + 60
        pids = []
        while not pids:
            check(time.monotonic() < end, "it does not begin")
            tasks = json.loads(status() or '{"jobs":[]}')["jobs"]
            pids = [t["pid"] for j in tasks for t in j["tasks"] if all(t["step"] > 0 for t in j["tasks"])]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP) # so that none sees another one die
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        text, err = p.communicate(timeout=60)
        check(p.returncode == 0, "%d: %s" % (p.returncode, err))
        check("training restarts from step 0" in err and "was restarted from step 0" in err, err)
        result = results(text)[-1]
        check(result["restarted_from_step"] == 0 and result["weights_sha256"] == b.sha(**kind), text)
    check("restarted_from_step" not in b.run(b.train(steps=5)).stdout, "it was not restarted")


@test
def a_run_directory_that_is_removed_ends_the_job_with_an_error(b):
    for what in ["store-*/state/host"], ["store-*"], ["*", ".*"]:
        out = b.out("run" + str(len(what[0])))
        p = b.begin("launch", "--workers", "3", "--", *b.forever(out))
        harness.await_checkpoint(out)
        for path in [f for w in what for f in glob.glob(os.path.join(b.out("boards"), w))]:
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.remove(path)
        _, err = p.communicate(timeout=60)
        check(p.returncode == 1 and "is missing or incomplete" in err and "has not ended after" not in err,
              "%s: %d: %s" % (what, p.returncode, err))
        b.run(["ckpt", "verify", out])


@test
def health_probes_distinguish_running_stopped_and_dead_tasks(b):
    check(b.end(["job", "status"])[0] == 0 and b.end(["job", "hang"])[0] == 0, "nothing runs, and all is well")
    check(b.end(["job", "status", "h"])[0] == 1, "there is no such job")
    p = b.begin(*b.forever(b.out("run"), "--name", "h"))
    harness.await_checkpoint(b.out("run"))
    pid = json.loads(b.end(["job", "status", "--json", "h"])[1])["jobs"][0]["tasks"][0]["pid"]

    def probe(want, what):
        end = time.monotonic() + 30
        while {b.end(["job", c, "h"])[0] for c in ("status", "hang")} != {want}:
            check(time.monotonic() < end, "%s: status %d, hang %d" % (what, b.end(["job", "status", "h"])[0],
                                                                       b.end(["job", "hang", "h"])[0]))
            time.sleep(0.1)

    probe(0, "it runs")
    os.kill(pid, signal.SIGSTOP)
    probe(4, "it is stopped by a signal")
    os.kill(pid, signal.SIGCONT)
    probe(0, "it runs again")
    os.kill(pid, signal.SIGKILL)
    p.wait(30)
    probe(5, "it is dead")


@test
def help_and_man_pages_name_the_exit_codes(b):
    for command in ["train"], ["launch"], ["queue", "submit"], ["queue", "attach"]:
        for text in b.run([*command, "--help"]).stdout, b.run(["help", "--man", *command]).stdout:
            check("75" in text and "stopped or left before the end" in text, "%s: %s" % (command, text))
    check("makes no progress" in b.run(["job", "status", "--help"]).stdout, "status")


if __name__ == "__main__":
    harness.main(Bench)
