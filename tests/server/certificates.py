#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who is let in by a server: by certificates, and without them by the user.

Usage: certificates.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`.
"""
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "train"))
import harness
import http2
from harness import check, test

CREATE, CLEAN = "/tensorflow.MasterService/CreateSession", "/tensorflow.WorkerService/CleanupAll"
STATUS = "/tensorflow.WorkerService/GetStatus"
GRAPH = """node { name: 'c' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value'
 value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 42 } } } }"""


class Bench(harness.Bench):
    def __init__(self, args):
        super().__init__(args)
        os.chmod(self.dir, 0o755)
        with open(self.out("graph.pbtxt"), "w") as f:
            f.write(GRAPH)

    def cert(self, name, *more):
        r = subprocess.run([self.program, "cert", "--out", self.out(name), *more], capture_output=True, text=True)
        check(r.returncode == 0, r.stderr)
        return self.out(name)

    def serve(self, *more, address="localhost:0"):
        self.log = open(self.out("log"), "w+")
        p = subprocess.Popen([self.program, "server", "--cluster", '{"worker": ["%s"]}' % address, *more],
                             stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.running.append(p)
        line = p.stdout.readline()
        check(line.startswith("serving at grpc://"), "it does not serve: %s" % open(self.out("log")).read())
        self.target = line.split()[-1]
        self.address = ("localhost", int(self.target.rsplit(":", 1)[1]))

    def does_not_serve(self, text, *more, address="localhost:0"):
        r = subprocess.run([self.program, "server", "--cluster", '{"worker": ["%s"]}' % address, *more],
                           capture_output=True, text=True, timeout=60)
        check(r.returncode != 0 and text in r.stderr, "%d: %s" % (r.returncode, r.stderr))

    def program_for_all(self):
        """A copy that another user can run: the folder of the build may be closed to others."""
        copy = self.out("bin/meshflow")
        if not os.path.exists(copy):
            shutil.copytree(os.path.join(os.path.dirname(self.program), "plugins"), self.out("bin/plugins"))
            shutil.copy(self.program, copy)
        return copy

    def step(self, *more, fails=None, user=None):
        program = self.program_for_all() if user else self.program
        r = subprocess.run([program, "graph", "run", self.out("graph.pbtxt"), "--target", self.target,
                            "--fetch", "c", *more], capture_output=True, text=True, timeout=120, user=user)
        if fails:
            check(r.returncode != 0 and fails in r.stderr, "%d: %s" % (r.returncode, r.stderr))
        else:
            check(r.returncode == 0 and "42" in r.stdout, r.stderr)

    def ask(self, method, folder, files=None):
        """The response to a client with this certificate."""
        tls = ssl.create_default_context(cafile=os.path.join(folder, "ca.pem"))
        tls.set_alpn_protocols(["h2"])
        if files is None:
            tls.load_cert_chain(os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem"))
        elif files:
            tls.load_cert_chain(*files)
        try:
            c = http2.Connection(self.address, tls=tls)
            answer, text = c.ask(method)
            c.close()
            return "OK" if answer is not None else text.decode(errors="replace")
        except (ssl.SSLError, ConnectionError) as e:
            return "not let in: %s" % e

    def sign(self, ca, name, days):
        """A key, and a certificate that the authority has signed, by another program."""
        key, request, cert = self.out(name + ".key"), self.out(name + ".csr"), self.out(name + ".pem")
        subprocess.run(["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request,
                        "-subj", "/CN=x"], check=True, capture_output=True)
        subprocess.run(["openssl", "x509", "-req", "-in", request, "-CA", ca + "/ca.pem", "-CAkey",
                        ca + "/ca-key.pem", "-CAcreateserial", "-days", str(days), "-out", cert],
                       check=True, capture_output=True)
        return cert, key


@test
def other_hosts_need_certificates(b):
    b.does_not_serve("would accept any peer on the network", address="0.0.0.0:0")
    b.does_not_serve("does not contain ca.pem", "--tls-dir", b.out("nothing"), address="0.0.0.0:0")
    b.serve(address="127.0.0.2:0")  # is loopback, too
    b.serve("--tls-dir", b.cert("tls"), address="0.0.0.0:0")
    check(b.ask(CREATE, b.out("tls")) == "OK", "its own certificate is not good")


@test
def certificates_determine_permissions(b):
    tls = b.cert("tls", "--task", "worker 0", "--task", "worker 1", "--task", "client", "--task", "trainer 0")
    b.cert("tls")  # for any task
    b.serve("--tls-dir", tls)
    may = {"worker-0": (True, True), "client": (True, False), "trainer-0": (False, False),
           "worker-1": (False, False), "": (True, True)}
    for name, (master, worker) in may.items():
        for method, allowed in ((CREATE, master), (STATUS, master), (CLEAN, worker)):
            said = b.ask(method, os.path.join(tls, name))
            check(said == "OK" if allowed else "the caller's certificate is that of " + name.replace("-", " ") in said,
                  "%s as %s: %s" % (method, name or "any task", said))
    b.step("--tls-dir", tls)  # which takes the client's
    b.does_not_serve("is for clients only", "--tls-dir", os.path.join(tls, "client"))


@test
def invalid_certificates_are_rejected_on_both_sides(b):
    tls, other = b.cert("tls"), b.cert("other")
    b.serve("--tls-dir", tls)
    own = lambda folder: (os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem"))
    for what, files in (("none", ()), ("another authority's", own(other)),
                        ("one that has expired", b.sign(tls, "old", -1))):
        said = b.ask(CREATE, tls, files)
        check("not let in" in said, "%s: %s" % (what, said))
    check(b.ask(CREATE, tls, b.sign(tls, "good", 1)) == "OK", "what openssl makes is not good")
    check("not let in" in b.ask(CREATE, other, own(tls)), "a client does not look at the server")
    cert, key = b.sign(tls, "late", -1)
    os.makedirs(b.out("late"))
    for source, name in ((cert, "cert.pem"), (key, "key.pem"), (tls + "/ca.pem", "ca.pem")):
        os.link(source, os.path.join(b.out("late"), name))
    b.step("--tls-dir", b.out("late"), fails="it has expired")
    b.does_not_serve("it has expired", "--tls-dir", b.out("late"))
    b.step("--tls-dir", other, fails="the certificate of the server is not from our authority")
    b.step("--tls-dir", tls)
    b.serve()
    b.step("--tls-dir", tls, fails="does not use TLS")


@test
def another_user_is_rejected(b):
    if os.geteuid() != 0:
        raise harness.Skipped("it takes root to be somebody else")
    b.serve()
    for _ in range(3):
        b.step(fails="belongs to another user (65534)", user=65534)
    b.step()
    said = open(b.out("log")).read()
    check(len(re.findall("calls refused", said)) == 3, "not said once for each: " + said)


def greet(address, user):
    """How many bytes a server answers a greeting with, on the Unix socket of its host."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(user)
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(60)
            s.connect("\0meshflow-0-rpc-%s:%d" % address)
            s.sendall(bytes.fromhex("316c464d") + b"\1" + bytes(59))
            got = s.recv(64)
            while 0 < len(got) < 64:
                got += s.recv(64 - len(got))
            os.write(w, b"%d" % len(got))
        except (BrokenPipeError, ConnectionResetError):
            os.write(w, b"0")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(w)
    with os.fdopen(r) as f:
        return f.read()


@test
def another_user_is_rejected_on_the_unix_socket(b):
    if os.geteuid() != 0:
        raise harness.Skipped("it takes root to be somebody else")
    b.serve()
    for user, greeted in (65534, "0"), (0, "64"):
        got = greet(b.address, user)
        check(got == greeted, "user %d gets %r bytes" % (user, got))


if __name__ == "__main__":
    harness.main(Bench)
