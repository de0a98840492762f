#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that are left to a daemon: they start, wait for each other, end, are cancelled, and outlive it.

Usage: daemon.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`.
"""
import json
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "train"))
import harness  # noqa: E402
from harness import check, test  # noqa: E402
from mistakes import obey_permissions  # noqa: E402


class Bench(harness.Bench):
    """A folder of jobs, and daemons."""

    def __init__(self, args):
        super().__init__(args)
        self.env = {**os.environ, "MESHFLOW_SPOOL": self.out("jobs"), "MESHFLOW_RUN_DIR": self.out("boards")}

    def run(self, *words, code=0, env={}):
        r = subprocess.run([self.program, *words], capture_output=True, text=True, timeout=120, cwd=self.dir,
                           env={**self.env, **env})
        check(r.returncode == code, "%s: exit code %d, not %d: %s" % (words, r.returncode, code, r.stderr))
        return r

    def daemon(self, slots=1, **how):
        p = subprocess.Popen([self.program, "queue", "daemon", "--slots", str(slots)], env=self.env, **how)
        self.running.append(p)
        return p

    def submit(self, name, *more, command):
        r = self.run("queue", "submit", "--name", name, *more, "--", *command)
        check(r.stdout.strip() == name, r.stdout)

    def jobs(self):
        return {j["job"]: j for j in json.loads(self.run("queue", "list", "--json").stdout)["jobs"]}

    def wait(self, condition, what):
        end = time.monotonic() + 90
        while not condition():
            check(time.monotonic() < end, "it did not happen: %s: %s" % (what, self.jobs()))
            time.sleep(0.05)

    def wait_state(self, name, state):
        self.wait(lambda: self.jobs()[name]["state"] == state, "%s is %s" % (name, state))

    def close(self):
        for j in self.jobs().values() if os.path.isdir(self.out("jobs")) else []:
            if j["state"] in ("queued", "runs", "lost"):
                self.run("queue", "cancel", j["job"])
                self.wait(lambda: self.jobs()[j["job"]]["state"] not in ("queued", "runs"), "it ends")
        super().close()


def shell(text):
    return ["sh", "-c", text]


@test
def jobs_start_in_their_order_and_say_how_they_ended(b):
    b.submit("first", command=shell("echo one >> order; echo said; echo wrong >&2"))
    b.submit("second", command=shell("echo two >> order; exit 7"))
    r = b.run("queue", "submit", "--", "sh", "-c", "echo three >> order; kill -9 $$")
    check("no daemon runs" in r.stderr, r.stderr)
    third = r.stdout.strip()
    check([j["state"] for j in b.jobs().values()] == ["queued"] * 3, str(b.jobs()))
    b.daemon()
    b.wait(lambda: all(j["state"] in ("done", "failed") for j in b.jobs().values()), "all are over")
    jobs = b.jobs()
    check([jobs[n]["exit_code"] for n in ("first", "second", third)] == [0, 7, 137], str(jobs))
    check("signal 9" in jobs[third]["how"], str(jobs[third]))
    with open(b.out("order")) as f:
        check(f.read() == "one\ntwo\nthree\n", "another order")
    r = b.run("queue", "attach", "first")
    check("said" in r.stdout and "wrong" in r.stdout, r.stdout)
    check("ended with exit code 7" in b.run("queue", "attach", "second", code=7).stderr, "")
    check(re.search(r"^second +failed", b.run("queue", "list", "--sweep").stdout, re.M), "")
    check(b.jobs() == {}, "they are forgotten")


@test
def running_jobs_outlive_their_daemon(b):
    first = b.daemon()
    b.submit("long", command=shell("echo begin; while [ ! -e go ]; do sleep 0.05; done; echo end"))
    b.wait_state("long", "runs")
    pid = b.jobs()["long"]["pid"]
    first.kill()
    first.wait()
    b.submit("next", command=shell("echo next"))
    check(b.jobs()["long"]["state"] == "runs" and b.jobs()["next"]["state"] == "queued", str(b.jobs()))
    again = b.daemon()
    time.sleep(0.5)
    check(b.jobs()["long"]["pid"] == pid and b.jobs()["long"]["tries"] == 1, "it was started again")
    check(b.jobs()["next"]["state"] == "queued", "there is one slot only")
    check("another daemon serves" in b.run("queue", "daemon", code=1).stderr, "two daemons")
    attached = subprocess.Popen([b.program, "queue", "attach", "long"], env=b.env, stdout=subprocess.PIPE, text=True)
    open(b.out("go"), "w").close()
    check(attached.communicate(timeout=60)[0] == "begin\nend\n", "it says something else")
    b.wait_state("next", "done")
    again.send_signal(signal.SIGTERM)
    check(again.wait(30) == 0, "it ends")


@test
def a_job_waits_for_its_predecessors_and_delays_no_other_job(b):
    b.submit("slow", command=shell("while [ ! -e slow ]; do sleep 0.05; done"))
    b.submit("wrong", command=["false"])
    b.submit("behind", "--after", "slow", command=shell("echo behind >> done"))
    b.submit("never", "--after", "wrong", "--after", "slow", command=shell("echo never >> done"))
    b.submit("free", command=shell("echo free >> done"))
    b.daemon(slots=2)
    b.wait_state("free", "done")
    check(b.jobs()["behind"]["state"] == "queued", "it does not wait")
    b.wait_state("never", "failed")
    check("it depends on 'wrong', which did not succeed" in b.jobs()["never"]["how"], str(b.jobs()["never"]))
    open(b.out("slow"), "w").close()
    b.wait_state("behind", "done")
    with open(b.out("done")) as f:
        check(f.read() == "free\nbehind\n", "others")


@test
def cancelled_jobs_end_with_all_their_processes(b):
    b.daemon()
    b.submit("deaf", "--grace", "1", command=shell("trap '' TERM; sleep 300 & echo $! > child; wait; sleep 300"))
    b.submit("waits", command=["true"])
    b.wait(lambda: os.path.exists(b.out("child")) and open(b.out("child")).read(), "its child")
    b.run("queue", "cancel", "waits")
    check(b.jobs()["waits"]["state"] == "cancelled", str(b.jobs()))
    b.run("queue", "cancel", "deaf")
    b.wait_state("deaf", "cancelled")
    b.wait(lambda: not os.path.exists("/proc/%s" % open(b.out("child")).read().strip()), "its child is gone")
    check("was cancelled already" in b.run("queue", "cancel", "deaf", code=1).stderr, "twice")


def alive(pid):
    try:
        with open("/proc/%s/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def children(b, name, n):
    """Processes that a job has written down."""
    b.wait(lambda: os.path.exists(b.out(name)) and len(open(b.out(name)).read().split()) == n, "its processes")
    return open(b.out(name)).read().split()


@test
def a_training_that_is_cancelled_is_not_done(b):
    b.daemon()
    b.submit("t", command=[b.program, "train", "--model", "mlp", "--data", "fashion-mnist", "--steps", "1000000",
                           "--quiet", "--no-test", "--out", "run", "--save-steps", "20"])
    b.submit("next", "--after", "t", command=shell("touch wrong"))
    b.wait(lambda: os.path.exists(b.out("run/checkpoint")), "a checkpoint")
    b.run("queue", "cancel", "t")
    b.wait_state("t", "cancelled")
    b.wait_state("next", "failed")
    check(not os.path.exists(b.out("wrong")), "what comes after it has begun")


@test
def processes_in_groups_of_their_own_end_with_their_job(b):
    apart = "setsid -w true; for i in 1 2; do (set -m; sleep 300 & echo $! >> %s; wait) & done; %s"
    b.daemon()
    b.submit("ends", command=["bash", "-c", apart % ("left", "while [ ! -e go ]; do sleep 0.05; done")])
    left = children(b, "left", 2)
    check(all(alive(p) for p in left), "they do not run")
    open(b.out("go"), "w").close()
    b.wait_state("ends", "done")
    check(not any(alive(p) for p in left), "they are still there")
    b.submit("lost", command=["bash", "-c", apart % ("lost", "sleep 300")])
    left = children(b, "lost", 2)
    os.kill(b.jobs()["lost"]["pid"], signal.SIGKILL)
    b.wait_state("lost", "failed")
    check(not any(alive(p) for p in left), "they are still there")


@test
def others_that_have_the_number_of_a_lost_watcher_are_left_alone(b):
    """After the machine was started again, say: a session whose first process has ended."""
    first = subprocess.Popen(["bash", "-c", "sleep 300 & echo $! > other"], cwd=b.dir, start_new_session=True)
    first.wait()
    other, = children(b, "other", 1)
    try:
        b.submit("lost", command=["true"])
        for name, text in (("run", "%d 1\n" % first.pid), ("tries", "1\n")):
            with open(b.out("jobs/lost/" + name), "w") as f:
                f.write(text)
        b.daemon()
        b.wait_state("lost", "failed")
        check(alive(other), "it was killed")
    finally:
        os.kill(int(other), signal.SIGKILL)


@test
def a_job_that_wants_many_slots_is_not_passed_over(b):
    b.submit("a", command=shell("while [ ! -e go ]; do sleep 0.05; done"))
    b.submit("big", "--slots", "2", command=shell("echo big >> order"))
    b.submit("small", command=shell("echo small >> order"))
    b.daemon(slots=2)
    b.wait_state("a", "runs")
    time.sleep(0.5)
    check(b.jobs()["small"]["state"] == "queued", "it has overtaken one that waits for slots")
    open(b.out("go"), "w").close()
    b.wait_state("small", "done")
    with open(b.out("order")) as f:
        check(f.read() == "big\nsmall\n", "another order")


@test
def what_others_wait_for_is_not_forgotten(b):
    daemon = b.daemon()
    b.submit("a", command=["true"])
    b.wait_state("a", "done")
    daemon.terminate()
    daemon.wait(30)
    b.submit("b", "--after", "a", command=["true"])
    check("'b' depends on 'a'" in b.run("queue", "list", "--forget", "a", code=1).stderr, "it was forgotten")
    b.run("queue", "list", "--sweep")
    check(set(b.jobs()) == {"a", "b"}, str(b.jobs()))
    b.daemon()
    b.wait_state("b", "done")
    open(b.out("jobs/a/run.tmp-123456"), "w").close()  # of a daemon that was killed during the write
    b.run("queue", "list", "--sweep")
    check(b.jobs() == {} and os.listdir(b.out("jobs")) == [".daemon"], str(os.listdir(b.out("jobs"))))


@test
def a_training_that_is_killed_is_started_again_and_weights_stay(b):
    train = [b.program, "train", "--model", "mlp", "--data", "fashion-mnist", "--batch", "32", "--steps", "3000",
             "--seed", "3", "--quiet", "--no-test", "--json"]
    want = json.loads(b.run(*train[1:]).stdout)["weights_sha256"]
    b.daemon()
    b.submit("t", "--restarts", "2", command=[*train, "--out", "run", "--save-steps", "100", "--resume"])
    b.wait(lambda: os.path.exists(b.out("run/checkpoint")), "a checkpoint")
    os.kill(b.jobs()["t"]["pid"], signal.SIGKILL)  # its supervisor, and so the training
    b.wait_state("t", "done")
    check(b.jobs()["t"]["tries"] == 2, str(b.jobs()))
    check(json.loads(b.run("queue", "attach", "t").stdout.splitlines()[-1])["weights_sha256"] == want, "other weights")
    b.submit("once", command=shell("echo $$ > once; sleep 300"))
    b.wait(lambda: os.path.exists(b.out("once")) and open(b.out("once")).read(), "it runs")
    os.kill(b.jobs()["once"]["pid"], signal.SIGKILL)
    b.wait_state("once", "failed")
    check("was lost" in b.jobs()["once"]["how"], str(b.jobs()))


@test
def an_end_that_cannot_be_written_down_is_not_lost(b):
    """As on a full disk: the folder of the job refuses files until the daemon has checked it several times."""
    b.daemon(preexec_fn=obey_permissions)
    b.submit("a", "--restarts", "3", command=shell("echo once >> once; chmod 500 %s; exit 75" % b.out("jobs/a")))
    b.submit("b", command=["true"])
    b.wait(lambda: os.path.exists(b.out("jobs/a/run")) and os.stat(b.out("jobs/a")).st_mode & 0o777 == 0o500, "it ran")
    time.sleep(1)
    os.chmod(b.out("jobs/a"), 0o700)
    b.wait_state("b", "done")
    a = b.jobs()["a"]
    check(a["state"] == "stopped" and a["exit_code"] == 75 and a["tries"] == 1, str(a))
    with open(b.out("once")) as f:
        check(f.read() == "once\n", "it was done again")


@test
def a_job_whose_folder_takes_no_files_is_said_and_tried_again(b):
    b.submit("a", command=["true"])
    os.chmod(b.out("jobs/a"), 0o500)
    daemon = b.daemon(preexec_fn=obey_permissions, stderr=subprocess.PIPE, text=True)
    said = daemon.stderr.readline()
    check("a did not start" in said and b.out("jobs") in said, said)
    os.chmod(b.out("jobs/a"), 0o700)
    b.wait_state("a", "done")


@test
def errors_name_the_mistake_and_the_fix(b):
    b.submit("a", command=["true"])
    for words, code, part in ((["queue", "submit", "--name", "a", "--", "true"], 1, "there is a job 'a' already"),
                              (["queue", "submit", "--name", "../a", "--", "true"], 2, "name"),
                              (["queue", "submit", "--after", "b", "--", "true"], 2, "no job 'b'"),
                              (["queue", "submit"], 2, "needs"), (["queue", "submit", "--slots", "0", "--", "true"], 2, "slots"),
                              (["queue", "cancel", "b"], 1, "no job 'b'"), (["queue", "attach", "b"], 1, "`meshflow queue list`"),
                              (["queue", "list", "--forget", "a"], 1, "has not ended")):
        r = b.run(*words, code=code)
        check(part in r.stderr, "%s: %s" % (words, r.stderr))
    with open(b.out("jobs/a/job"), "wb") as f:
        f.write(b"nonsense")
    check(b.jobs() == {}, "what is no job is passed over")
    check("not a job record" in b.run("queue", "attach", "a", code=1).stderr, "")
    with open(b.out("jobs/a/job"), "wb") as f:
        f.write(b"meshflow job 1\0slots=1\0cwd=/nowhere\0word=true\0")
    b.daemon()
    b.wait_state("a", "failed")
    check("cannot change to the folder '/nowhere'" in b.run("queue", "attach", "a", code=126).stdout, "")


if __name__ == "__main__":
    harness.main(Bench)
