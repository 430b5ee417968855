# SPDX-License-Identifier: Apache-2.0
"""Host names in the addresses of programs. A name with several addresses needs an /etc/hosts of its own: unshare(1)."""

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
    """An address at which connects are never answered: the queue of its listener is full."""

    def __init__(self, host, port):
        self.sockets = [socket.socket()]
        self.sockets[0].bind((host, port))
        self.sockets[0].listen(0)
        # One more than the queue takes: further connects stay unanswered.
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


def test_a_listener_takes_a_name_and_reports_the_address_it_became(tmp_path):
    with Target("tcp://localhost:0", {"disk0": "ram:16M"}, tmp_path) as target:
        assert re.match(r"tcp://(127\.0\.0\.1|\[::1\]):\d+$", target.address), target.address


def test_a_listener_with_an_unknown_name_says_what_to_check(tmp_path):
    for program, words in (
        ("wss-target", ["--volume", "disk0=ram:16M", "--control", "", "--listen"]),
        ("wss-target", ["--role", "kv", "--control", "", "--listen"]),
        ("wss-cache", ["--join", "tcp://127.0.0.1:1", "--listen"]),
    ):
        done = run(BUILD / program, *words, "tcp://no-such-host.invalid:1", check=False)
        assert done.returncode == 1
        assert "cannot find host 'no-such-host.invalid'" in done.stderr and "check its spelling" in done.stderr, done.stderr


@pytest.mark.parametrize("silent, serving", [("127.0.0.1", "127.0.0.2"), ("127.0.0.2", "127.0.0.1")])
def test_an_address_that_does_not_answer_leaves_time_for_the_next(tmp_path, silent, serving):
    """In both orders, as the system prefers one of the two whatever the order in /etc/hosts."""
    port = free_port()
    partition = Partition(0, [f"tcp://{serving}:{port}"], tmp_path, [], [], {})
    partition.start()
    try:
        with Silent(silent, port):
            hosts = f"{silent} storage\n{serving} storage\n"
            with_hosts(tmp_path, hosts, BUILD / "kvctl", "--timeout", 20, "--target", f"tcp://storage:{port}", "put", "a", "1")
    finally:
        partition.kill()


def test_kvctl_takes_names(tmp_path):
    with Store("tcp", 1, tmp_path) as store:
        target = f"tcp://localhost:{port_of(store.target)}"
        run(BUILD / "kvctl", "--target", target, "put", "a", "1")
        assert "1" in run(BUILD / "kvctl", "--target", target, "get", "a").stdout
    done = run(BUILD / "kvctl", "--target", "tcp://no-such-host.invalid", "--timeout", 2, "get", "a", check=False)
    assert done.returncode != 0 and "no-such-host.invalid" in done.stderr
