# SPDX-License-Identifier: Apache-2.0
"""Tests host names in the addresses of programs. Tests of names with two addresses mount their own /etc/hosts
with unshare(1)."""

import re
import socket

import pytest

from .kv import Partition, Store
from .ports import free_port
from .programs import BUILD, Target, run


def with_hosts(tmp_path, text, *command, **options):
    hosts = tmp_path / "hosts"
    hosts.write_text(text)
    return run("unshare", "-rm", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts, *command, **options)


class Silent:
    """An address that never answers a connection attempt, because the queue of its listener is full."""

    def __init__(self, host, port):
        self.sockets = [socket.socket()]
        self.sockets[0].bind((host, port))
        self.sockets[0].listen(0)
        # More attempts than the queue has room for, so further ones stay unanswered.
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex((host, port))
            self.sockets.append(client)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.sockets:
            one.close()


def port_of(address):
    return int(re.search(r":(\d+)$", address)[1])


def test_listener_accepts_a_host_name_and_reports_its_address(tmp_path):
    with Target("tcp://localhost:0", {"disk0": "ram:16M"}, tmp_path) as target:
        assert re.match(r"tcp://(127\.0\.0\.1|\[::1\]):\d+$", target.address), target.address


def test_error_of_a_listener_with_an_unknown_name_advises_what_to_check(tmp_path):
    for program, words in (
        ("wss-target", ["--volume", "disk0=ram:16M", "--control", "", "--listen"]),
        ("wss-target", ["--role", "kv", "--control", "", "--listen"]),
        ("wss-cache", ["--join", "tcp://127.0.0.1:1", "--listen"]),
    ):
        done = run(BUILD / program, *words, "tcp://no-such-host.invalid:1", check=False)
        assert done.returncode == 1
        assert "cannot find host 'no-such-host.invalid'" in done.stderr and "check its spelling" in done.stderr, done.stderr


@pytest.mark.parametrize("silent, serving", [("127.0.0.1", "127.0.0.2"), ("127.0.0.2", "127.0.0.1")])
def test_client_tries_the_next_address_if_the_first_does_not_answer(tmp_path, silent, serving):
    """Runs with both assignments of the addresses, because the system prefers one of them regardless of their
    order in /etc/hosts."""
    port = free_port()
    partition = Partition(0, [f"tcp://{serving}:{port}"], tmp_path, [], [], {})
    partition.start()
    try:
        with Silent(silent, port):
            hosts = f"{silent} storage\n{serving} storage\n"
            with_hosts(tmp_path, hosts, BUILD / "kvctl", "--timeout", 20, "--target", f"tcp://storage:{port}", "put", "a", "1")
    finally:
        partition.kill()


def test_kvctl_accepts_host_names(tmp_path):
    with Store("tcp", 1, tmp_path) as store:
        target = f"tcp://localhost:{port_of(store.target)}"
        run(BUILD / "kvctl", "--target", target, "put", "a", "1")
        assert "1" in run(BUILD / "kvctl", "--target", target, "get", "a").stdout
    done = run(BUILD / "kvctl", "--target", "tcp://no-such-host.invalid", "--timeout", 2, "get", "a", check=False)
    assert done.returncode != 0 and "no-such-host.invalid" in done.stderr
