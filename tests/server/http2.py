# SPDX-License-Identifier: Apache-2.0
"""A minimal HTTP/2 client, to send invalid frames to a gRPC server, or to call it."""
import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def integer(n):
    """An HPACK integer of seven bits, in a byte whose first bit is 0."""
    if n < 127:
        return bytes([n])
    out, n = bytes([127]), n - 127
    while n >= 128:
        out, n = out + bytes([n % 128 + 128]), n // 128
    return out + bytes([n])


def header(name, value):
    """A literal header without indexing."""
    name, value = name.encode(), value.encode()
    return b"\0" + integer(len(name)) + name + integer(len(value)) + value


def request_headers(method, more=()):
    fields = [(":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "localhost"),
              ("te", "trailers"), ("content-type", "application/grpc"), *more]
    return b"".join(header(*f) for f in fields)


def message(body):
    return b"\0" + struct.pack(">I", len(body)) + body


def opening():
    return PREFACE + frame(SETTINGS, 0, 0)


def call(stream, method, body):
    """All frames of a call; bodies are small."""
    return frame(HEADERS, END_HEADERS, stream, request_headers(method)) + \
        frame(DATA, END_STREAM, stream, message(body))


class Connection:
    """Calls one after the other."""

    def __init__(self, address, timeout=60, tls=None):
        """tls: an ssl.SSLContext."""
        self.s = socket.create_connection(address, timeout)
        if tls:
            self.s = tls.wrap_socket(self.s, server_hostname="localhost")
        self.s.sendall(opening())
        self.stream = -1
        self.rest = b""

    def read_frame(self):
        while len(self.rest) < 9 or len(self.rest) < 9 + int.from_bytes(self.rest[:3], "big"):
            more = self.s.recv(1 << 16)
            if not more:
                raise ConnectionError("the server has hung up")
            self.rest += more
        size = int.from_bytes(self.rest[:3], "big")
        kind, flags, stream = self.rest[3], self.rest[4], int.from_bytes(self.rest[5:9], "big")
        payload, self.rest = self.rest[9:9 + size], self.rest[9 + size:]
        return kind, flags, stream, payload

    def ask(self, method, body=b""):
        """The answer's message, or None; and the header bytes, which gRPC writes as plain text."""
        self.stream += 2
        self.s.sendall(call(self.stream, method, body))
        data, text = b"", b""
        while True:
            kind, flags, stream, payload = self.read_frame()
            if kind == SETTINGS and not flags & ACK:
                self.s.sendall(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                self.s.sendall(frame(PING, ACK, 0, payload))
            elif kind == GOAWAY:
                raise ConnectionError(payload[8:].decode(errors="replace"))
            elif stream != self.stream:
                continue
            elif kind == DATA:
                data += payload
                self.s.sendall(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", max(1, len(payload)))))
            elif kind == HEADERS:
                text += payload
            if kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
                return (data[5:] if data else None), text

    def close(self):
        self.s.close()
