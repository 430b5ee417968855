# SPDX-License-Identifier: Apache-2.0
"""Tests floods of unauthenticated connections to a target with secrets: other logins succeed, and the log
stays readable."""

import contextlib
import errno
import resource
import select
import socket
import struct
import threading
import time
from urllib.parse import urlsplit

import pytest

from .programs import BUILD, Target, run, run_under_nbdkit

WSSCTL = BUILD / "wssctl"
ELSEWHERE = ["127.0.0.2"]
MANY_HOSTS = [f"127.0.1.{number}" for number in range(1, 201)]
MORE_HOSTS = [f"127.{number // 250 + 1}.1.{number % 250 + 1}" for number in range(3000)]  # than the target has places
SOCKETS = 1400  # number of connections that the flood keeps open


def hello(number):
    """Returns the first bytes of a connection: a login that requests authentication, with a port id of its own."""
    port = struct.pack(">QQ", number, 1)
    login = struct.pack(">QHBBI16s16sHHI", 1, 0x0006, 0, 0, 8260, port, bytes(16), 0, 0x5753, 1 << 4)
    return (struct.pack(">IHBBB7x", 0x57535346, 1, 1, 16, len(login)) + login).ljust(256, b"\0")


class Flood:
    """A thread that opens connections from the given addresses until it is stopped. It closes the oldest
    ones."""

    def __init__(self, address, speaks, sources):
        self.to, self.speaks, self.sources = (urlsplit(address).hostname, urlsplit(address).port), speaks, sources
        self.opened = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def connect(self):
        one = socket.socket()
        one.bind((self.sources[self.opened % len(self.sources)], 0))
        one.settimeout(5)
        one.connect(self.to)
        if self.speaks:
            one.sendall(hello(self.opened))
        self.opened += 1
        return one

    def run(self):
        held = []
        while not self.over.is_set():
            try:
                held.append(self.connect())
            except OSError as error:
                assert error.errno not in (errno.EMFILE, errno.EADDRNOTAVAIL), error
            if len(held) > SOCKETS:
                held.pop(0).close()
        for one in held:
            one.close()

    def __enter__(self):
        self.thread.start()
        while self.opened < SOCKETS + 100 and self.thread.is_alive():
            select.select([], [], [], 0.01)
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


@pytest.mark.parametrize("speaks, sources", [(False, ELSEWHERE), (True, ELSEWHERE), (False, MANY_HOSTS), (True, MANY_HOSTS), (True, MORE_HOSTS)],
                         ids=["idle sockets", "logins without a proof", "idle sockets of 200 hosts", "logins without a proof of 200 hosts",
                              "logins without a proof of 3000 hosts"])
def test_logins_from_other_hosts_succeed_during_a_flood(tmp_path, speaks, sources):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * SOCKETS:
        pytest.skip(f"the limit of open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    book = tmp_path / "secrets"
    book.touch(mode=0o600)
    book.write_text(run(WSSCTL, "secret", "alice").stdout)
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(Target("tcp://127.0.0.1:0", {"disk": "ram:32M"}, tmp_path, "--secrets", str(book)))
        flood = stack.enter_context(Flood(target.address, speaks, sources))
        for attempt in range(5):
            # The plugin logs in when nbdkit starts. If that failed, a client of its socket would hang.
            done = run_under_nbdkit("true", f"target={target.address}", "volume=disk", f"secret-file={book}")
            assert done.returncode == 0, f"attempt {attempt}, {flood.opened} connections:\n{done.stderr}"
            assert flood.thread.is_alive()
    seconds = time.monotonic() - started
    lines = target.log.read_text().splitlines()
    # The log's limits apply to whole seconds, and the flood may extend into one more second than it lasts.
    most = 200 + 20 * min(len(sources), 20) * (seconds + 1)
    assert len(lines) < most, f"{flood.opened} connections wrote {len(lines)} lines in {seconds:.0f} s"
