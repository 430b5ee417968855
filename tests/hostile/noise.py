# SPDX-License-Identifier: Apache-2.0
"""Connections that do not use the fabric's protocol."""

from __future__ import annotations

import random
import re
import socket
import ssl
import time


def client_hello(chance: random.Random) -> bytes:
    """The first message of an honest client, damaged or cut more often than not."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_bio(incoming, outgoing).do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello = bytearray(outgoing.read())
    for _ in range(chance.randrange(4)):
        hello[chance.randrange(len(hello))] = chance.randrange(256)
    return bytes(hello[: chance.choice((len(hello), len(hello), chance.randrange(len(hello))))])


PIECES = (b"GET ", b"HEAD ", b"POST ", b"OPTIONS ", b"/api/v1/volume/list", b"/api/v1/stats", b"/metrics", b"/livez", b"/%00%ff%", b"?a=b&=&%",
          b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b" HTTP/9.9\r\n", b"Host: localhost\r\n", b"Host: evil.example\r\n", b"Connection: keep-alive\r\n",
          b"Content-Length: 10\r\n", b"Content-Length : 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"X: ", b"\r\n",
          b"\r\n\r\n", b"\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"X: " + b"a" * 9000 + b"\r\n", b"X: a\r\n" * 3000, b"[" * 3000)  # fmt: skip


def requests(chance: random.Random) -> bytes:
    """HTTP requests: up to two complete ones, then random parts of requests."""
    whole = b"GET " + chance.choice(PIECES[4:9]) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    return whole * chance.randrange(3) + b"".join(chance.choices(PIECES, k=chance.randrange(24)))


def connect(address: str) -> socket.socket:
    """Connects to SCHEME://HOST:PORT or unix:///PATH."""
    if address.startswith("unix://"):
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(10)
        made.connect(address.removeprefix("unix://"))
        return made
    host, port = re.fullmatch(r"\w+://(.+):(\d+)", address).groups()
    return socket.create_connection((host, int(port)), timeout=10)


def noise(address: str, until: float, chance: random.Random) -> tuple[int, int]:
    """Repeatedly connects to tcp://, tls://, http://HOST:PORT or unix:///PATH (a control socket) and sends random bytes, often
    after the start of a TLS handshake or parts of HTTP requests. Returns the numbers of connections and of answers."""
    count = answers = 0
    while time.monotonic() < until:
        with connect(address) as peer:
            peer.settimeout(0.3)
            try:
                if address.startswith("tls:") and chance.random() < 0.7:
                    peer.sendall(client_hello(chance))
                if address.startswith(("http:", "unix:")) and chance.random() < 0.9:
                    peer.sendall(requests(chance))
                for _ in range(chance.randrange(4)):
                    peer.sendall(chance.randbytes(chance.choice((1, 16, 64, 4096, 100000))))
                if chance.random() < 0.3:
                    answers += bool(peer.recv(100))
            except (ConnectionError, socket.timeout):
                pass
        count += 1
        time.sleep(0.05)  # limits the rate, because the target needs the processor too
    return count, answers


def slow_requests(address: str, until: float, number: int) -> int:
    """Holds `number` connections, each of which sends a request byte by byte. Returns the number of connections made."""
    made = 0
    held: list[socket.socket] = []
    request = b"GET /api/v1/stats HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1000
    sent = 0
    while time.monotonic() < until:
        while len(held) < number:
            held.append(connect(address))
            made += 1
        for each in list(held):
            try:
                each.sendall(request[sent % len(request):][:1])
            except ConnectionError:
                held.remove(each)
                each.close()
        sent += 1
        time.sleep(0.1)
    for each in held:
        each.close()
    return made
