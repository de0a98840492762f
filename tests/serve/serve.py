#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`meshflow serve` with real processes: requests of TensorFlow Serving clients, reloads, kills, invalid requests.

Usage: serve.py PROGRAM [PATTERN] [--requests N]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Responses are compared with the output of
`meshflow predict` for the same images and checkpoint, bit by bit.
"""
import base64
import http.client
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zipfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "train"))
import harness
from harness import check, test

ROWS = 16
PATH = "/v1/models/model"


# ---- images and their predictions ----

def npy(kind, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (kind, ",".join(map(str, shape)))
    head = head.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data


def rows_of(path):
    """Rows of floats of an .npy file, as bytes."""
    with open(path, "rb") as f:
        data = f.read()
    at = 10 + struct.unpack("<H", data[8:10])[0]
    return [data[at + 40 * i:at + 40 * i + 40] for i in range(ROWS)]


def nested(picture):
    return [[[picture[28 * y + x]] for x in range(28)] for y in range(28)]


def png(picture):
    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    lines = b"".join(b"\0" + picture[28 * y:28 * y + 28] for y in range(28))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def as_bytes(row):
    return struct.pack("<%df" % len(row), *row)


class Server:
    def __init__(self, bench, where, *more, descriptors=4096):
        self.log = bench.out("log-%d" % len(bench.running))
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([bench.program, "serve", where, "--port", "0", "--threads", "1", *more],
                                            stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=lambda:
                                            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)))
        bench.running.append(self.process)
        self.said = self.process.stdout.readline()
        found = re.search(r"http://127.0.0.1:(\d+)/", self.said)
        check(found, "it said '%s' and %s" % (self.said, self.errors()))
        self.port = int(found.group(1))

    def errors(self):
        with open(self.log, encoding="utf-8") as f:
            return f.read()

    def ask(self, method, path, body=None, headers={}):
        """Status and body, which is JSON where it looks so."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request(method, path, body if body is None or isinstance(body, (str, bytes)) else json.dumps(body),
                  {"Content-Type": "application/json", **headers})
        r = c.getresponse()
        text = r.read()
        c.close()
        return r.status, json.loads(text) if text.startswith(b"{") else text.decode(errors="replace")

    def predict(self, body, path=PATH + ":predict"):
        status, answer = self.ask("POST", path, body)
        check(status == 200, "%d: %s" % (status, answer))
        return answer

    def count(self, name):
        _, text = self.ask("GET", "/metrics")
        found = re.search(r"^meshflow_serve_%s (\d+)$" % re.escape(name), text, re.M)
        return int(found.group(1)) if found else 0

    def replicas(self):
        with open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid), encoding="ascii") as f:
            return [int(pid) for pid in f.read().split()]

    def wait_for(self, what, done):
        end = time.monotonic() + 60
        while not done():
            check(time.monotonic() < end, "%s: not within a minute; %s" % (what, self.errors()))
            time.sleep(0.02)


class Bench(harness.Bench):
    trained = None  # a folder with checkpoints of some steps; the first test that wants them trains

    def __init__(self, args):
        super().__init__(args)
        self.requests = args.requests
        random.seed(7)
        self.pictures = [random.randbytes(784) for _ in range(ROWS)]

    def run(self, *command):
        r = subprocess.run([self.program, *command], capture_output=True, text=True, timeout=120)
        check(r.returncode == 0, "%s: %s" % (command, r.stderr))

    def train(self):
        """Checkpoints of steps 10, 20 ... 50, each in a folder of its own, with model.json."""
        if not Bench.trained:
            Bench.trained = harness.tempfile.mkdtemp()
            for i in range(1, 6):
                self.run("train", "--model", "mlp", "--data", "fashion-mnist", "--steps", str(10 * i), "--lr", "0.1",
                         "--seed", "3", "--quiet", "--no-test", "--out", "%s/%d" % (Bench.trained, 10 * i))
        return Bench.trained

    def put(self, step, folder):
        """Copies the checkpoint into the folder in the order in which a training writes it: the index last."""
        os.makedirs(folder, exist_ok=True)
        here = "%s/%d/" % (self.train(), step)
        for name in ["model.json", "schema.json"] + sorted(n for n in os.listdir(here) if n.startswith("model.ckpt-%d" % step)):
            shutil.copy(here + name, folder + "/." + name)
            os.rename(folder + "/." + name, folder + "/" + name)

    def predicted(self, where, *more):
        """The predictions of a checkpoint, one row of bytes per image."""
        path = self.out("pictures.npz")
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("image.npy", npy("|u1", (ROWS, 28, 28, 1), b"".join(self.pictures)))
            z.writestr("label.npy", npy("<i4", (ROWS,), struct.pack("<%di" % ROWS, *[i % 10 for i in range(ROWS)])))
        out = self.out("scores.npy")
        self.run("predict", "--data", "fashion-mnist", "--test", path, "--from", where, "--output", out, *more)
        return rows_of(out)

    def expected(self, step, *more):
        return self.predicted("%s/%d" % (self.train(), step), *more)


# ---- what clients send ----

@test
def every_form_of_a_request_gets_the_output_of_predict(b):
    rows = b.expected(10)
    s = Server(b, "%s/10" % b.train(), "--replicas", "1")
    two = [nested(p) for p in b.pictures[:2]]
    raw = [{"b64": base64.b64encode(p).decode()} for p in b.pictures[:2]]
    files = [{"b64": base64.b64encode(png(p)).decode()} for p in b.pictures[:2]]
    for key, body in (("predictions", {"instances": two}),
                      ("predictions", {"signature_name": "serving_default", "instances": two}),
                      ("predictions", {"instances": [{"image": p} for p in two]}),
                      ("predictions", {"instances": raw}),
                      ("predictions", {"instances": [{"image": p} for p in files]}),
                      ("outputs", {"inputs": two}),
                      ("outputs", {"inputs": {"image": two}}),
                      ("outputs", {"inputs": {"image": raw}})):
        answer = s.predict(body)
        check(list(answer) == [key] and [as_bytes(r) for r in answer[key]] == rows[:2],
              "%.60s: %s" % (json.dumps(body), answer))
    everything = s.predict({"instances": [nested(p) for p in b.pictures * 40]})["predictions"]
    check([as_bytes(r) for r in everything] == rows * 40, "640 rows at once")
    results = s.predict({"examples": [{"image": list(b.pictures[0])}]}, PATH + ":classify")["results"]
    scores = struct.unpack("<10f", rows[0])
    check(len(results) == 1 and len(results[0]) == 10 and abs(sum(p for _, p in results[0]) - 1) < 1e-6, "%s" % results)
    check(max(results[0], key=lambda r: r[1]) == results[0][scores.index(max(scores))], "%s" % results)
    check(results[0][9][0] == "Ankle boot", "%s" % results)


@test
def status_metadata_health_and_metrics_are_served(b):
    s = Server(b, "%s/20" % b.train(), "--name", "clothes")
    status, answer = s.ask("GET", "/v1/models/clothes")
    good = {"version": "20", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    check((status, answer) == (200, {"model_version_status": [good]}), "%d %s" % (status, answer))
    check(s.ask("GET", "/v1/models/clothes/versions/20") == (200, answer), "with its version")
    status, answer = s.ask("GET", "/v1/models/clothes/metadata")
    check(answer["model_spec"] == {"name": "clothes", "signature_name": "", "version": "20"}, "%s" % answer)
    signature = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    check(signature["inputs"]["image"]["dtype"] == "DT_UINT8", "%s" % signature)
    check([d["size"] for d in signature["inputs"]["image"]["tensor_shape"]["dim"]] == ["-1", "28", "28", "1"],
          "%s" % signature)
    check(signature["outputs"]["scores"]["dtype"] == "DT_FLOAT", "%s" % signature)
    check(s.ask("GET", "/healthz") == (200, "ok\n") and s.ask("HEAD", "/healthz") == (200, ""), "health")
    check(s.count("replicas") == 2 and s.count("version") == 20, "metrics")


@test
def invalid_requests_get_the_reason(b):
    s = Server(b, "%s/10" % b.train(), "--max-body", "1")
    one = {"instances": [nested(b.pictures[0])]}
    for status, part, method, path, body in (
            (400, "JSON Parse error", "POST", PATH + ":predict", "{\"instances\": [1,"),
            (400, "JSON Parse error", "POST", PATH + ":predict", b"\xff\xfe\x00"),
            (400, "JSON Parse error", "POST", PATH + ":predict", ""),
            (400, "JSON Parse error", "POST", PATH + ":predict", "[" * 100000),
            (400, "expected a map", "POST", PATH + ":predict", []),
            (400, "is missing", "POST", PATH + ":predict", {}),
            (400, "instances[1][0]: expected a list of 28, found one of 27", "POST", PATH + ":predict",
             {"instances": [nested(b.pictures[0]), [r[1:] for r in nested(b.pictures[0])]]}),
            (400, "256 does not fit uint8", "POST", PATH + ":predict", {"instances": [nested([256] * 784)]}),
            (400, "there is no input \"x\"", "POST", PATH + ":predict", {"inputs": {"x": []}}),
            (400, "there is no signature", "POST", PATH + ":predict", {"signature_name": "x", **one}),
            (400, "no row of 784 uint8", "POST", PATH + ":predict", {"instances": [{"b64": "AAAA"}]}),
            (400, "use :predict", "POST", PATH + ":regress", {"examples": []}),
            (404, "version 7 is not served", "POST", PATH + "/versions/7:predict", one),
            (400, "a version is a whole number", "POST", PATH + "/versions/x:predict", one),
            (404, "/v1/models/model", "POST", "/v1/models/other:predict", one),
            (404, "there is no method", "POST", PATH + ":explain", one),
            (404, "no such path", "GET", "/", None),
            (405, "POST", "GET", PATH + ":predict", None),
            (413, "Too Large", "POST", PATH + ":predict", b" " * (2 << 20))):
        got, answer = s.ask(method, path, body)
        text = answer["error"] if isinstance(answer, dict) else answer
        check(got == status and part in text, "%s %s %.60s: %d %s" % (method, path, body, got, answer))
    for junk in (b"\0" * 100, b"GET\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                 b"POST %s:predict HTTP/1.1\r\nContent-Length: 99\r\n\r\n{" % PATH.encode()):
        with socket.create_connection(("127.0.0.1", s.port), 10) as c:
            c.sendall(junk)
    s.predict(one)
    check(s.count("replica_deaths_total") == 0, s.errors())


@test
def the_server_survives_more_connections_than_descriptors(b):
    s = Server(b, "%s/10" % b.train(), descriptors=64)
    strangers = []
    for _ in range(100):
        c = socket.socket()
        c.setblocking(False)
        c.connect_ex(("127.0.0.1", s.port))
        strangers.append(c)
    s.wait_for("descriptors to be used up", lambda: len(os.listdir("/proc/%d/fd" % s.process.pid)) == 64)
    old = s.replicas()
    os.kill(old[0], signal.SIGKILL)
    s.wait_for("a new replica", lambda: len(s.replicas()) == 2 and old[0] not in s.replicas())
    for c in strangers:
        c.close()
    s.predict({"instances": [nested(b.pictures[0])]})


# ---- runs, kills, reloads ----

@test
def concurrent_requests_are_batched(b):
    s = Server(b, "%s/10" % b.train(), "--replicas", "1", "--wait-ms", "5000", "--batch", "8")
    rows, answers = b.expected(10), [None] * 8

    def ask(i):
        answers[i] = s.predict({"instances": [nested(b.pictures[i])]} if i != 3 else {"inputs": [nested(b.pictures[i])]})

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check([as_bytes(list(a.values())[0][0]) for a in answers] == rows[:8], "answers were mixed up: %s" % answers)
    check(s.count("runs_total") == 1 and s.count("run_requests_total") == 8, "%d runs" % s.count("runs_total"))


class Clients:
    """Threads that send requests on persistent connections, and compare every response with the valid ones."""

    def __init__(self, server, bodies, allowed, n, threads=16):
        self.server, self.allowed, self.left, self.wrong = server, allowed, n, []
        self.bodies = [b"POST %s:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" %
                       (PATH.encode(), len(body), body) for body in bodies]
        self.lock, self.answered, self.versions = threading.Lock(), 0, {}
        self.threads = [threading.Thread(target=self.work) for _ in range(threads)]
        for t in self.threads:
            t.start()

    def next(self):
        with self.lock:
            self.left -= 1
            return self.left

    def work(self):
        try:
            with socket.create_connection(("127.0.0.1", self.server.port), 60) as c:
                f = c.makefile("rb")
                while (i := self.next()) >= 0:
                    c.sendall(self.bodies[i % ROWS])
                    self.take(i % ROWS, f)
        except OSError as e:
            self.wrong.append("%s" % e)

    def take(self, row, f):
        status, length = f.readline(), 0
        while (line := f.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line[15:])
        body = f.read(length)
        said = as_bytes(json.loads(body)["predictions"][0]) if b" 200 " in status else None
        step = self.allowed[row].get(said)
        with self.lock:
            self.answered += step is not None
            self.versions[step] = self.versions.get(step, 0) + 1
            if step is None:
                self.wrong.append("%s %s" % (status, body[:200]))

    def join(self):
        for t in self.threads:
            t.join()


@test
def no_request_is_lost_through_reloads_and_kills(b):
    folder, steps = b.out("served"), [10, 20, 30, 40]
    expected = {step: b.expected(step) for step in steps}
    allowed = [{expected[step][row]: step for step in steps} for row in range(ROWS)]
    b.put(10, folder)
    s = Server(b, folder, "--replicas", "2", "--poll-ms", "50")
    bodies = [json.dumps({"instances": [{"b64": base64.b64encode(p).decode()}]}).encode() for p in b.pictures]
    began = time.monotonic()
    clients = Clients(s, bodies, allowed, b.requests)
    killed = 0
    for i, step in enumerate(steps[1:]):
        part = b.requests * (i + 1) // 4
        s.wait_for("%d answers" % part, lambda: clients.answered >= part or clients.wrong)
        os.kill(random.choice(s.replicas()), signal.SIGKILL)
        killed += 1
        b.put(step, folder)
        s.wait_for("version %d" % step, lambda: s.count("version") == step)
    clients.join()
    took = time.monotonic() - began
    check(not clients.wrong and clients.answered == b.requests, "%d of %d answered; %s" %
          (clients.answered, b.requests, clients.wrong[:3]))
    check(s.count("replica_deaths_total") == killed and s.count("reloads_total") == 3, s.errors())
    check(s.count("requests_total{code=\"200\"}") == b.requests, "%d counted" % s.count("requests_total{code=\"200\"}"))
    s.wait_for("a new replica", lambda: s.count("replicas") == 2)
    figures = (b.requests, took, s.count("runs_total"), s.count("retries_total"), clients.versions)
    s.process.terminate()
    check(s.process.wait(60) == 0, s.errors())
    print("# %d requests in %.1f s, %d runs, %d tried again, by version %s" % figures)


@test
def a_replica_that_hangs_is_replaced_and_its_request_answered(b):
    s = Server(b, "%s/10" % b.train(), "--replicas", "1", "--timeout", "1")
    pid = s.replicas()[0]
    os.kill(pid, signal.SIGSTOP)
    row = s.predict({"instances": [nested(b.pictures[0])]})["predictions"][0]
    check(as_bytes(row) == b.expected(10)[0], "%s" % row)
    check(pid not in s.replicas() and s.count("retries_total") == 1, s.errors())


@test
def a_request_that_crashes_replicas_fails(b):
    s = Server(b, "%s/10" % b.train(), "--replicas", "1")
    answers = []
    body = json.dumps({"instances": [nested(p) for p in b.pictures] * 180})  # takes its time
    t = threading.Thread(target=lambda: answers.append(s.ask("POST", PATH + ":predict", body)))
    t.start()
    for i in range(4):
        s.wait_for("run %d" % i, lambda: s.count("runs_total") == i + 1)
        os.kill(s.replicas()[0], signal.SIGKILL)
        s.wait_for("death %d" % i, lambda: s.count("replica_deaths_total") == i + 1)
    t.join()
    check(answers[0][0] == 500 and "each replica that ran this request has died" in answers[0][1]["error"], "%.200s" % (answers,))
    s.predict({"instances": [nested(b.pictures[0])]})


@test
def a_damaged_checkpoint_is_not_served(b):
    folder = b.out("served")
    b.put(10, folder)
    s = Server(b, folder, "--poll-ms", "20")
    for end in "index", "data-00000-of-00001":
        with open("%s/model.ckpt-99.%s" % (folder, end), "wb") as f:
            f.write(b"no table at all " * 100)
    s.wait_for("a failure", lambda: s.count("failed_reloads_total") > 0)
    _, answer = s.ask("GET", PATH)
    states = {v["version"]: v["state"] for v in answer["model_version_status"]}
    check(states == {"10": "AVAILABLE", "99": "END"}, "%s" % answer)
    check(as_bytes(s.predict({"instances": [nested(b.pictures[0])]})["predictions"][0]) == b.expected(10)[0], "version 10")
    b.put(20, folder)
    os.remove("%s/model.ckpt-99.index" % folder)
    s.wait_for("version 20", lambda: s.count("version") == 20)


@test
def versions_are_served_by_number(b):
    folder = b.out("versions")
    b.put(30, folder + "/1")
    s = Server(b, folder, "--poll-ms", "20")
    body = {"instances": [nested(b.pictures[0])]}
    check(as_bytes(s.predict(body, PATH + "/versions/1:predict")["predictions"][0]) == b.expected(30)[0], "version 1")
    b.put(40, folder + "/2")
    s.wait_for("version 2", lambda: s.ask("GET", PATH + "/versions/1")[0] == 404)
    check(as_bytes(s.predict(body, PATH + "/versions/2:predict")["predictions"][0]) == b.expected(40)[0], "version 2")
    status, answer = s.ask("POST", PATH + "/versions/1:predict", body)
    check(status == 404 and "version 1 is not served, but 2 is" in answer["error"], "%d %s" % (status, answer))


@test
def a_compressed_model_gives_the_output_of_predict(b):
    small = b.out("small")
    r = subprocess.run([b.program, "compress", "%s/10" % b.train(), "--data", "fashion-mnist", "--epochs", "0",
                        "--rank", "rank=16 layers=dense", "--quantize", "int8", "--no-speed", "--out", small],
                       capture_output=True, text=True, timeout=120)
    check(r.returncode == 0, r.stderr)
    s = Server(b, small)
    answer = s.predict({"instances": [nested(p) for p in b.pictures]})["predictions"]
    check([as_bytes(x) for x in answer] == b.predicted(small), "other answers than predict's")


@test
def accepted_requests_are_answered_before_exit(b):
    s = Server(b, "%s/10" % b.train(), "--wait-ms", "60000", "--batch", "100")
    answers = []
    t = threading.Thread(target=lambda: answers.append(s.predict({"instances": [nested(b.pictures[0])]})))
    t.start()
    s.wait_for("a request", lambda: s.count("queued") == 1)
    s.process.send_signal(signal.SIGTERM)
    t.join()
    check(as_bytes(answers[0]["predictions"][0]) == b.expected(10)[0], "%s" % answers)
    check(s.process.wait(60) == 0, s.errors())


@test
def persistent_clients_do_not_delay_exit(b):
    s = Server(b, "%s/10" % b.train(), "--wait-ms", "0")
    body, over, cut = json.dumps({"instances": [nested(b.pictures[0])]}), threading.Event(), []

    def ask():
        connection = http.client.HTTPConnection("127.0.0.1", s.port)
        while not over.is_set():
            try:
                connection.request("POST", PATH + ":predict", body)
                answer = connection.getresponse()
                answer.read()
                closes = answer.getheader("Connection") == "close"
            except ConnectionError:  # closed before it was taken
                return
            except http.client.HTTPException as e:
                cut.append(e)
                return
            if closes:
                return

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    s.wait_for("requests", lambda: s.count("runs_total") > 50)
    s.process.send_signal(signal.SIGTERM)
    try:
        check(s.process.wait(20) == 0, s.errors())
    finally:
        over.set()
    for t in threads:
        t.join()
    check(not cut, "answers that were cut: %s" % cut)


@test
def a_mesh_gives_the_output_of_one_device(b):
    layout = ["--mesh", "rows:2;cols:2", "--layout", "batch:rows;hidden:cols", "--exact"]
    s = Server(b, "%s/10" % b.train(), "--replicas", "1", *layout)
    rows = b.expected(10)
    for n in (1, ROWS):
        answer = s.predict({"instances": [nested(p) for p in b.pictures[:n]]})["predictions"]
        check([as_bytes(r) for r in answer] == rows[:n], "%d rows" % n)


@test
def models_that_cannot_be_served_fail_before_the_port_opens(b):
    for part, command in (("there is no checkpoint or folder", [b.out("nowhere")]),
                          ("no checkpoint", [b.dir, "--model", "mlp", "--columns", "image=uint8[28,28,1] classes=10"]),
                          ("was it made by another model", ["%s/10" % b.train(), "--model", "mlp units=[7]"]),
                          ("--name is part of a path", ["%s/10" % b.train(), "--name", "a/b"])):
        r = subprocess.run([b.program, "serve", *command, "--port", "0"], capture_output=True, text=True, timeout=60)
        check(r.returncode != 0 and part in r.stderr, "%s: %d %s" % (command, r.returncode, r.stderr))


if __name__ == "__main__":
    options = harness.parser()
    options.add_argument("--requests", type=int, default=10000)
    try:
        harness.main(Bench, options)
    finally:
        if Bench.trained:
            shutil.rmtree(Bench.trained, ignore_errors=True)
