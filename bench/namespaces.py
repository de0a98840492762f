# SPDX-License-Identifier: Apache-2.0
"""Hosts as network namespaces of this machine, with a bridge between them. Needs root."""
import os
import subprocess
import tempfile

NET = "10.213.78"


def shell(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Hosts:
    """n hosts; rate: of each host's link, in megabits per second (None: unlimited)."""

    def __init__(self, n, rate=None):
        self.rate = rate
        self.id = "mfb%d" % (os.getpid() % 100000)
        self.names = ["%s-%d" % (self.id, i) for i in range(n)]
        self.ips = ["%s.%d" % (NET, i + 1) for i in range(n)]
        self.addresses = [ip + ":2222" for ip in self.ips]
        self.dir = tempfile.TemporaryDirectory()

    def __enter__(self):
        shell("ip", "link", "add", self.id, "type", "bridge")
        shell("ip", "link", "set", self.id, "up")
        for name, ip in zip(self.names, self.ips):
            shell("ip", "netns", "add", name)
            shell("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            shell("ip", "link", "set", name, "master", self.id, "up")
            shell("ip", "-n", name, "addr", "add", ip + "/24", "dev", "eth0")
            shell("ip", "-n", name, "link", "set", "eth0", "up")
            shell("ip", "-n", name, "link", "set", "lo", "up")
            if self.rate:
                shell("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate",
                      "%gmbit" % self.rate, "burst", "%dkb" % max(64, self.rate / 8), "latency", "50ms")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False)
        subprocess.run(["ip", "link", "delete", self.id], check=False)
        self.dir.cleanup()

    def make_certificates(self, program):
        hosts = [word for ip in self.ips for word in ("--host", ip)]
        tasks = [word for i in range(len(self.ips)) for word in ("--task", "worker %d" % i)]
        shell(program, "cert", "--out", self.dir.name, *hosts, *tasks)

    def certificates(self, i):
        """Environment variables for the task on host i."""
        return {"MESHFLOW_TLS_" + name.upper(): os.path.join(self.dir.name, "worker-%d" % i, name + ".pem")
                for name in ("ca", "cert", "key")}

    def start(self, i, command, environment={}, **kind):
        kind = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **kind}
        return subprocess.Popen(["ip", "netns", "exec", self.names[i], *command],
                                env={**os.environ, **environment}, **kind)
