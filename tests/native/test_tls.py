# SPDX-License-Identifier: Apache-2.0
"""Tests tls:// addresses of volumes, cache engines and the key-value store: traffic is encrypted, and peers
are accepted or refused."""

import json
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import threading
import urllib.request

import pytest

from .cache_cluster import ask, until
from .certificates import Authority
from .kv import KVCTL, START_SECONDS, Partition
from .ports import free_port
from .programs import BUILD, Target, run, run_under_nbdkit

WSSCTL = BUILD / "wssctl"
PATTERN = b"what nobody else may read: " * 300
IO = 'qemu-io -f raw -c "write -s {} 1M 8192" -c "flush" -c "read -P 0x0 2M 4096" "$uri" && ' \
     'qemu-io -f raw -c "read -v 1M 512" "$uri" | grep -q "what.nobody"'


def secret_file(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(0o600)
    return path


@pytest.fixture
def alice(tmp_path):
    return secret_file(tmp_path / "alice", run(WSSCTL, "secret", "alice").stdout.strip())


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "certificates")


class Recorder:
    """A proxy that forwards to a port of this host and records all bytes."""

    def __init__(self, port):
        self.port, self.seen = port, bytearray()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = self.listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source, sink):
        try:
            while part := source.recv(1 << 16):
                self.seen += part
                sink.sendall(part)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listening.close()


class Relay:
    """A man in the middle. It terminates the client's TLS connection with a certificate that the client
    trusts, and forwards all messages over a connection of its own."""

    def __init__(self, certificate, dial):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*certificate)
        self.context.num_tickets = 0  # targets do not send tickets either
        self.dial = dial
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"tls://127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client = self.context.wrap_socket(self.listening.accept()[0], server_side=True)
                self._pass_on({client: (server := self.dial()), server: client})
            except OSError:
                if self.listening.fileno() < 0:
                    return

    def _pass_on(self, other):
        # One thread serves both directions, because two threads must not share a TLS session. No message is
        # longer than a record.
        while True:
            for source in select.select(list(other), [], [], 30)[0]:
                part = source.recv(1 << 16)
                if not part:
                    for end in other:
                        end.close()
                    return
                other[source].sendall(part)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listening.close()


def port_of(target):
    return int(target.address.rsplit(":", 1)[1])


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
def test_network_recording_contains_the_data_of_a_volume_over_tcp_but_not_over_tls(scheme, alice, tmp_path):
    (tmp_path / "pattern").write_bytes(PATTERN)
    volume = tmp_path / "file.img"
    with Target(f"{scheme}://127.0.0.1:0", {"disk": f"aio:{volume},size=16M,create"}, tmp_path, "--secrets", str(alice)) as target, \
            Recorder(port_of(target)) as recorder:
        done = run_under_nbdkit(IO.format(tmp_path / "pattern"), f"target={scheme}://127.0.0.1:{recorder.address}", "volume=disk",
                                f"secret-file={alice}")
        assert done.returncode == 0, done.stderr
    assert PATTERN[:4096] in volume.read_bytes()
    assert len(recorder.seen) > 2 * 8192
    assert (b"what nobody else may read" in recorder.seen) == (scheme == "tcp")
    if scheme == "tls":
        assert b"disk" not in recorder.seen, "the name of the volume must be encrypted"


def test_client_verifies_the_name_in_the_certificate_of_a_target_without_secrets(authority, tmp_path):
    certificate, key = authority.issue("target")
    with Target("tls://127.0.0.1:0", {"disk": "ram:32M"}, tmp_path, "--tls-cert", str(certificate), "--tls-key", str(key)) as target:
        words = [f"target={target.address}", "volume=disk"]
        done = run_under_nbdkit('qemu-io -f raw -c "write -P 0x5a 0 1M" -c "read -P 0x5a 0 1M" "$uri"', *words, f"tls-ca={authority.file}")
        assert done.returncode == 0, done.stderr
        done = run_under_nbdkit("true", *words)
        assert done.returncode != 0 and "--tls-ca" in done.stderr, done.stderr
        done = run_under_nbdkit("true", f"target=tls://localhost:{port_of(target)}", "volume=disk", f"tls-ca={authority.file}")
        assert done.returncode != 0 and "certificate" in done.stderr, done.stderr


@pytest.mark.parametrize("listen, dialled, said", [
    ("tcp", "tls", "connect with tcp://"),
    ("tls", "tcp", "connect with tls://"),
])
def test_neither_end_falls_back_to_plain_tcp(listen, dialled, said, alice, tmp_path):
    with Target(f"{listen}://127.0.0.1:0", {"disk": "ram:32M"}, tmp_path, "--secrets", str(alice)) as target:
        done = run_under_nbdkit("true", f"target={dialled}://127.0.0.1:{port_of(target)}", "volume=disk", f"secret-file={alice}")
        assert done.returncode != 0 and said in done.stderr, done.stderr
        until(lambda: f"connect with {listen}://" in target.log.read_text(), what="the target has logged the reason")


def test_wrong_secret_fails_the_tls_handshake_and_is_counted(alice, tmp_path):
    wrong, port = secret_file(tmp_path / "wrong", "alice:this-is-not-the-secret-of-alice"), free_port()
    with Target("tls://127.0.0.1:0", {"disk": "ram:32M"}, tmp_path, "--secrets", str(alice), "--http", str(port)) as target:
        done = run_under_nbdkit("true", f"target={target.address}", "volume=disk", f"secret-file={wrong}")
        assert done.returncode != 0 and "TLS handshake failed: the peer rejected 'alice': unknown name or wrong secret" in done.stderr, done.stderr
        until(lambda: "unknown name 'alice' or wrong secret" in target.log.read_text(), what="the target has logged the reason")
        assert "audit:" not in target.log.read_text()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as metrics:
            assert re.search(r"^wss_tls_handshakes_failed_total [1-9]", metrics.read().decode(), re.M)


@pytest.mark.parametrize("onward", ["tcp", "tls"])
def test_relay_with_a_trusted_certificate_gets_no_session(onward, alice, authority, tmp_path):
    """The relay can connect to the target, with its own certificate or over tcp://, but it does not have the secret."""
    target_certificate, relay_certificate = authority.issue("target"), authority.issue("relay")
    port = free_port()
    more = ["--secrets", str(alice), "--listen", f"tls://127.0.0.1:{port}", "--tls-cert", str(target_certificate[0]), "--tls-key",
            str(target_certificate[1]), "--tls-client-ca", str(authority.file)]  # fmt: skip
    with Target("tcp://127.0.0.1:0", {"disk": "ram:32M"}, tmp_path, *more) as target:

        def dial():
            if onward == "tcp":
                return socket.create_connection(("127.0.0.1", port_of(target)))
            context = ssl.create_default_context(cafile=authority.file)
            context.load_cert_chain(*relay_certificate)
            return context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1")

        words = ["volume=disk", f"secret-file={alice}", f"tls-ca={authority.file}"]
        done = run_under_nbdkit("true", f"target=tls://127.0.0.1:{port}", *words)
        assert done.returncode == 0, done.stderr
        with Relay(relay_certificate, dial) as relay:
            done = run_under_nbdkit("true", f"target={relay.address}", *words)
        assert done.returncode != 0 and "'alice'" in done.stderr, done.stderr
        assert "a relay forwards the login" in done.stderr, done.stderr
        refused = r"audit: authentication failed: .* initiator='alice' left after the challenge: .* behind a relay"
        until(lambda: re.search(refused, target.log.read_text()), what="the target has logged the failure")


def test_reload_replaces_the_certificate_unless_the_new_file_is_invalid(authority, tmp_path):
    certificate, key = authority.issue("target", "IP:127.0.0.2")
    with Target("tls://127.0.0.1:0", {"disk": "ram:32M"}, tmp_path, "--tls-cert", str(certificate), "--tls-key", str(key)) as target:
        words = [f"target={target.address}", "volume=disk", f"tls-ca={authority.file}"]
        done = run_under_nbdkit("true", *words)
        assert done.returncode != 0 and "IP address mismatch" in done.stderr, done.stderr
        authority.issue("target")
        target.process.send_signal(signal.SIGHUP)
        until(lambda: "TLS files reloaded" in target.log.read_text(), what="the files have been reloaded")
        certificate.write_text("broken")
        target.process.send_signal(signal.SIGHUP)
        until(lambda: "continuing with the files loaded before" in target.log.read_text(), what="the reload has failed")
        assert str(certificate) in target.log.read_text()
        done = run_under_nbdkit("true", *words)
        assert done.returncode == 0, done.stderr


def test_reload_replaces_the_secrets_of_the_key_value_store(alice, tmp_path):
    address = f"tls://127.0.0.1:{free_port()}"
    known = secret_file(tmp_path / "known", alice.read_text().strip())
    bob = secret_file(tmp_path / "bob", run(WSSCTL, "secret", "bob").stdout.strip())
    store = Partition(0, [address], tmp_path, ["--kv-secrets", str(known)], [], {})
    store.start()
    try:
        kvctl = [KVCTL, "--target", address, "--timeout", "10"]
        run(*kvctl, "--secret-file", alice, "put", "key", "value")
        secret_file(known, bob.read_text().strip())
        store.process.send_signal(signal.SIGHUP)
        until(lambda: run(*kvctl, "--secret-file", bob, "get", "key", check=False).stdout.startswith("value"), what="the new secret is accepted")
        assert run(*kvctl, "--secret-file", alice, "get", "key", check=False).returncode != 0
    finally:
        assert store.stop() == 0


def test_target_refuses_tls_files_without_a_tls_address(authority, tmp_path):
    certificate, key = authority.issue("target")
    done = run(BUILD / "wss-target", "--listen", "tcp://127.0.0.1:0", "--volume", "disk=ram:32M", "--control", "", "--tls-cert",
               certificate, "--tls-key", key, check=False)
    assert done.returncode == 2 and "no address is tls://" in done.stderr, done.stderr


@pytest.mark.parametrize("option", ["--tls-cert", "--tls-key", "--tls-client-ca"])
def test_target_does_not_wait_for_a_pipe_as_tls_file(option, authority, tmp_path):
    certificate, key = authority.issue("target")
    os.mkfifo(tmp_path / "pipe")
    files = {"--tls-cert": certificate, "--tls-key": key, option: tmp_path / "pipe"}
    done = run(BUILD / "wss-target", "--listen", "tls://127.0.0.1:0", "--volume", "disk=ram:32M", "--control", "",
               *(word for pair in files.items() for word in pair), check=False)
    assert done.returncode == 1 and f"{option} {tmp_path}/pipe: not a regular file" in done.stderr, done.stderr


def test_key_value_store_serves_only_clients_with_a_known_secret(alice, tmp_path):
    address = f"tls://127.0.0.1:{free_port()}"
    store = Partition(0, [address], tmp_path, ["--kv-secrets", str(alice)], [], {})
    store.start()
    try:
        kvctl = [KVCTL, "--target", address, "--timeout", "10"]
        run(*kvctl, "--secret-file", alice, "put", "key", "value")
        assert run(*kvctl, "--secret-file", alice, "get", "key").stdout.startswith("value")
        wrong = secret_file(tmp_path / "wrong", "alice:this-is-not-the-secret-of-alice")
        assert run(*kvctl, "--secret-file", wrong, "get", "key", check=False).returncode != 0
        assert run(*kvctl, "get", "key", check=False).returncode != 0
    finally:
        assert store.stop() == 0


def test_cache_engine_joins_a_target_and_serves_clients_over_tls(alice, authority, tmp_path):
    engine_secret = secret_file(tmp_path / "engine", run(WSSCTL, "secret", "engine").stdout.strip())
    certificate, key = authority.issue("engine")
    join, control = f"tls://127.0.0.1:{free_port()}", tmp_path / "control"
    with Target("tls://127.0.0.1:0", {"disk": f"aio:{tmp_path}/file.img,size=16M,create"}, tmp_path, "--secrets", str(alice),
                "--cache-listen", join, "--cache-secrets", str(engine_secret), "--control", str(control)) as target:
        engine = subprocess.Popen([BUILD / "wss-cache", "--join", join, "--listen", "tls://127.0.0.1:0", "--memory", "64M",
                                   "--secret-file", engine_secret, "--tls-cert", certificate, "--tls-key", key,
                                   "--control", tmp_path / "engine.sock"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        try:
            assert b"ready" in engine.stdout.readline()
            joined = lambda: any(one["up"] for one in ask(tmp_path / "engine.sock", "stats")["engine"]["storages"])  # noqa: E731
            until(joined, START_SECONDS, "the engine has joined")
            done = run_under_nbdkit('qemu-io -f raw -c "write -P 0x5a 0 4M" -c "read -P 0x5a 0 4M" -c "read -P 0x5a 0 4M" "$uri"',
                                    f"target={target.address}", "volume=disk", f"secret-file={alice}", f"tls-ca={authority.file}")
            assert done.returncode == 0, done.stderr
            assert ask(tmp_path / "engine.sock", "stats")["tls"]["handshakes"] >= 2, "both the target's and the client's connection to the engine need one"
            assert json.dumps(ask(control, "stats")["tls"])
        finally:
            engine.terminate()
            assert engine.wait(20) == 0
