#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures the packets that arrive at some interfaces, until standard input ends.

Usage: capture.py INTERFACE...        as root

At the end it prints `FROM TO BYTES`, one line per pair of addresses. IPv6 packets are ignored unless their destination
is a unicast address."""
import collections
import ipaddress
import select
import socket
import sys

ALL, OUTGOING, IP, IP6 = 3, 4, 0x0800, 0x86DD
RECEIVE_BUFFER = 33  # SO_RCVBUFFORCE


def listen(name):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    s.setsockopt(socket.SOL_SOCKET, RECEIVE_BUFFER, 64 << 20)
    s.bind((name, 0))
    return s


def pair(kind, packet):
    """Source and destination of a packet; None: no unicast packet."""
    if kind == IP:
        return str(ipaddress.IPv4Address(bytes(packet[26:30]))), str(ipaddress.IPv4Address(bytes(packet[30:34])))
    to = ipaddress.IPv6Address(bytes(packet[38:54]))
    if kind != IP6 or to.is_multicast or packet[20] == 58:  # ICMPv6: whose address is that?
        return None
    return str(ipaddress.IPv6Address(bytes(packet[22:38]))), str(to)


def main():
    sockets = [listen(name) for name in sys.argv[1:]]
    sent = collections.Counter()
    head = bytearray(64)
    print("listening", flush=True)
    while True:
        ready, _, _ = select.select([*sockets, sys.stdin], [], [])
        for s in ready:
            if s is sys.stdin:
                for (a, b), n in sorted(sent.items()):
                    print(a, b, n)
                return
            length, where = s.recvfrom_into(head, len(head), socket.MSG_TRUNC)
            who = pair(where[1], head) if where[2] != OUTGOING and length >= 54 else None
            if who:
                sent[who] += length


main()
