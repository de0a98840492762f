# SPDX-License-Identifier: Apache-2.0
"""The programs of the documents (documents/), unchanged with TensorFlow's servers, and with one changed import with
Meshflow's: both must print the same.

Usage: documents.py    a line of JSON each, {"run": [PROGRAM, ARG...], "out": FILE} or {"wait": PID} or {"kill": PID}:
                       runs programs in child processes, because importing TensorFlow takes longer than they do."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "documents")
THEIRS, OURS = "from tensorflow.compat.v1.train import Server\n", "from meshflow import Server\n"
SECONDS = 120


# ---- the process that has TensorFlow loaded ----

def child(argv, out):
    """Never returns."""
    import runpy
    status = 1
    try:
        for fd in (1, 2):
            os.dup2(os.open(out + (".err" if fd == 2 else ""), os.O_WRONLY | os.O_CREAT), fd)
        sys.argv = argv
        runpy.run_path(argv[0], run_name="__main__")
        status = 0
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def serve():
    import tensorflow.compat.v1  # noqa: F401
    for line in sys.stdin:
        asked = json.loads(line)
        if "run" in asked:
            answer = os.fork()
            if answer == 0:
                child(asked["run"], asked["out"])
        else:
            pid = asked.get("kill") or asked["wait"]
            if "kill" in asked:
                os.kill(pid, signal.SIGKILL)
            answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(answer, flush=True)


class Programs:
    def __init__(self, folder):
        package = os.path.join(HERE, "..", "..", "python")
        self.folder, self.n = folder, 0
        self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, start_new_session=True,
                                        env=dict(os.environ, PYTHONPATH=package, MESHFLOW_ALLOW_DIR=folder))

    def ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def start(self, *argv):
        """(pid, the file with its output)"""
        self.n += 1
        out = os.path.join(self.folder, "out%d" % self.n)
        return self.ask(run=argv, out=out), out

    def said(self, *argv):
        """What a program prints as JSON, line by line; or how it ended."""
        return self.said_by(*self.start(*argv))

    def said_by(self, pid, out):
        status = self.ask(wait=pid)
        with open(out, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f if line.startswith("{")]
        if status == 0 and lines:
            return lines
        with open(out + ".err", encoding="utf-8") as f:
            return "ended with %d: %s" % (status, f.read()[-600:])

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


# ---- the programs ----

def free_address():
    import socket
    with socket.create_server(("127.0.0.1", 0)) as s:
        return "127.0.0.1:%d" % s.getsockname()[1]


def program(name, ours, folder):
    with open(os.path.join(FOLDER, name + ".py"), encoding="utf-8") as f:
        text = f.read()
    if text.count(THEIRS) != 1:
        raise ValueError("%s imports its server otherwise" % name)
    path = os.path.join(folder, "%s_%s.py" % (name, "ours" if ours else "theirs"))
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace(THEIRS, OURS) if ours else text)
    return path


def alone(programs, path):
    return programs.said(path, free_address())


def await_words(out, lines=1):
    end = time.time() + SECONDS
    while time.time() < end:
        if os.path.exists(out):
            with open(out, encoding="utf-8") as f:
                if f.read().count("\n") >= lines:
                    return
        time.sleep(0.05)


def machines(programs, path):
    cluster = {"ps": [free_address(), free_address()], "worker": [free_address(), free_address()]}
    tasks = [programs.start(path, json.dumps(cluster), job, str(i))
             for job, i in (("ps", 0), ("ps", 1), ("worker", 1))]
    for _, out in tasks:
        await_words(out)
    said = programs.said(path, json.dumps(cluster), "worker", "0")
    for pid, _ in tasks:
        programs.ask(kill=pid)
    return said


def servers_for(programs, path, workers):
    """Starts two parameter servers. Returns their pids, and a worker's arguments by its index."""
    cluster = {"ps": [free_address(), free_address()], "worker": [free_address() for _ in range(workers)]}
    folder = tempfile.mkdtemp(dir=programs.folder)
    tasks = [programs.start(path, json.dumps(cluster), "ps", str(i), folder) for i in range(2)]
    for _, out in tasks:
        await_words(out)
    return [pid for pid, _ in tasks], lambda i: (path, json.dumps(cluster), "worker", str(i), folder)


def both(*said):
    """The output of several programs, or the exit status of the first failed program."""
    return next((s for s in said if isinstance(s, str)), [line for s in said for line in s])


def one_after_the_other(programs, path):
    servers, worker = servers_for(programs, path, 2)
    said = both(*[programs.said(*worker(i)) for i in range(2)])
    for pid in servers:
        programs.ask(kill=pid)
    return said


def the_second_first(programs, path):
    """It starts before the chief, and prints a line of its own."""
    servers, worker = servers_for(programs, path, 2)
    second = programs.start(*worker(1))
    await_words(second[1], 2)
    chief = programs.said(*worker(0))
    said = both(chief, programs.said_by(*second), programs.said(*worker(0)))
    for pid in servers:
        programs.ask(kill=pid)
    return said


WAYS = {"001_monitored_training": one_after_the_other, "001_session_manager": the_second_first,
        "004_standalone": alone, "004_multi_machine": machines}
NAMES = list(WAYS)


def differ(ours, theirs, path=""):
    """Numbers to six digits."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and set(ours) == set(theirs):
        return [d for k in theirs for d in differ(ours[k], theirs[k], "%s.%s" % (path, k))]
    if isinstance(theirs, list) and isinstance(ours, list) and len(ours) == len(theirs):
        return [d for i, (a, b) in enumerate(zip(ours, theirs)) for d in differ(a, b, "%s[%d]" % (path, i))]
    if isinstance(theirs, float) and isinstance(ours, float):
        return [] if abs(ours - theirs) <= 1e-6 * max(1.0, abs(theirs)) else ["%s: ours %r, theirs %r" % (path, ours, theirs)]
    return [] if ours == theirs else ["%s: ours %r, theirs %r" % (path, ours, theirs)]


def check(name):
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(folder)
        try:
            theirs, ours = (WAYS[name](programs, program(name, o, folder)) for o in (False, True))
        finally:
            programs.stop()
    return dict(failures=differ(ours, theirs) if isinstance(theirs, list) else ["theirs: " + theirs])


if __name__ == "__main__":
    serve()
