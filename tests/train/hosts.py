# SPDX-License-Identifier: Apache-2.0
"""Hosts as network namespaces with a bridge between them, and links that can be cut. Needs root, iproute2 and
nftables; tests/engines/hosts.sh is the same for scripts."""
import itertools
import os
import subprocess

from harness import Failed

NET = "10.213.78"


def run(*command):
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode != 0:
        raise Failed("%s: %s" % (" ".join(command), r.stderr))


class Hosts:
    """Hosts 0 to n - 1."""

    made = itertools.count()

    def __init__(self, n):
        self.id = "m%dx%d" % (os.getpid(), next(Hosts.made))
        self.n = 0
        try:
            run("ip", "link", "add", self.id, "type", "bridge")
            run("ip", "link", "set", self.id, "up")
            for i in range(n):
                self.add(i)
        except Failed:
            self.close()
            raise

    def add(self, i):
        name, port = self.name(i), "%s.%d" % (self.id, i)
        run("ip", "netns", "add", name)
        self.n = i + 1
        run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", port, "master", self.id, "up")
        run("ip", "-n", name, "addr", "add", self.address(i) + "/24", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        self.nft(i, "add table inet cut; add chain inet cut in { type filter hook input priority 0; }; "
                 "add chain inet cut out { type filter hook output priority 0; }")

    def name(self, i):
        return "%s-%d" % (self.id, i)

    def address(self, i):
        return "%s.%d" % (NET, i + 1)

    def on(self, i):
        """What a command line on this host begins with."""
        return ["ip", "netns", "exec", self.name(i)]

    def nft(self, i, rules):
        run(*self.on(i), "nft", rules)

    def drop(self, i, *others, ways=("in", "out"), share=100):
        """Silently, of what host i gets from others and sends to them (none given: all, but not itself) this
        many of a hundred packets."""
        for way in ways:
            field, interface = ("saddr", "iifname") if way == "in" else ("daddr", "oifname")
            for other in others or [None]:
                match = "%s eth0 " % interface if other is None else "ip %s %s " % (field, self.address(other))
                lot = "" if share == 100 else "numgen random mod 100 < %d " % share
                self.nft(i, "add rule inet cut %s %s%sdrop" % (way, match, lot))

    def heal(self, i):
        self.nft(i, "flush chain inet cut in; flush chain inet cut out")

    def close(self):
        for i in range(self.n):
            subprocess.run(["ip", "link", "delete", "%s.%d" % (self.id, i)], stderr=subprocess.DEVNULL)
            subprocess.run(["ip", "netns", "delete", self.name(i)], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "delete", self.id], stderr=subprocess.DEVNULL)
