# SPDX-License-Identifier: Apache-2.0
"""Tests the rights of key-value clients (--kv-access) with kvctl and partitions over tls://."""

import json
import signal

import pytest

from .cache_cluster import ask, until
from .kv import KVCTL, Partition
from .ports import free_port
from .programs import BUILD, run

WSSCTL = BUILD / "wssctl"
TARGET = BUILD / "wss-target"
NO_RIGHT = 7
NAMES = ("alice", "bob", "carol", "p")


@pytest.fixture
def secrets(tmp_path):
    """The secrets files: one for each name, and a file "known" with all secrets."""
    files, lines = {}, []
    for name in NAMES:
        lines.append(run(WSSCTL, "secret", name).stdout.strip())
        files[name] = secret_file(tmp_path / f"{name}.secret", lines[-1])
    files["known"] = secret_file(tmp_path / "known", *lines)
    return files


def secret_file(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(0o600)
    return path


class Store:
    """Partitions over tls://. Their rules are in a configuration file."""

    def __init__(self, directory, secrets, rules, count=1):
        self.directory, self.secrets = directory, secrets
        self.addresses = [f"tls://127.0.0.1:{free_port()}" for _ in range(count)]
        self.config = directory / "store.toml"
        self.control = [directory / f"control-{index}" for index in range(count)]
        self.write(rules)
        self.partitions = [Partition(index, self.addresses, directory, self._options(index), [], {}) for index in range(count)]
        for partition, control in zip(self.partitions, self.control):
            partition.command[partition.command.index("--control") + 1] = str(control)

    def _options(self, index):
        return ["--config", str(self.config), "--kv-secrets", str(self.secrets["known"]), "--secret-file", str(self.secrets["p"]),
                "--kv-terminate-ms", "200", "--kv-durability", "async",
                "--kv-directory", str(self.directory / f"data-{index}")]

    def write(self, rules):
        self.config.write_text(f"kv_access = {json.dumps(rules)}\n")

    def reload(self, rules):
        self.write(rules)
        for partition in self.partitions:
            partition.process.send_signal(signal.SIGHUP)

    def __enter__(self):
        for partition in self.partitions:
            partition.begin()
        for partition in self.partitions:
            partition.wait_ready()
        return self

    def __exit__(self, *_):
        for partition in self.partitions:
            assert partition.stop() == 0, partition.log.read_text()

    def kvctl(self, name, *words, **how):
        return run(KVCTL, "--target", ",".join(self.addresses), "--secret-file", self.secrets[name], *words, check=False, **how)

    def done(self, name, *words, **how):
        result = self.kvctl(name, *words, **how)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def refused(self, name, *words, why, **how):
        result = self.kvctl(name, *words, **how)
        assert result.returncode == NO_RIGHT, (result.returncode, result.stderr)
        assert f"client '{name}' has no right to {why}" in result.stderr + result.stdout, result.stderr


RULES = ["alice=rw", "bob=rw:a/", "carol=w:in/", "p=partition"]


@pytest.mark.parametrize("count", [1, 2])
def test_every_command_needs_its_right(count, secrets, tmp_path):
    with Store(tmp_path, secrets, RULES, count) as store:
        store.done("alice", "put-all", "a/x=1", "b/x=secret", "in/x=secret")
        assert store.done("bob", "get", "a/x").startswith("1")
        store.done("bob", "put", "a/y", "2", "--ttl", "60000")
        assert store.done("bob", "incr", "a/count") == "1\n"
        store.done("bob", "put-all", "a/z=3", "--if", "a/none=absent")
        assert store.done("bob", "scan", "a/").split() == sorted(["a/count", "a/x", "a/y", "a/z"]) or count > 1
        store.refused("bob", "get", "b/x", why="read 'b/x'")
        store.refused("bob", "get-all", "a/x", "b/x", why="read 'b/x'")
        store.refused("bob", "put", "b/x", "other", why="write 'b/x'")
        store.refused("bob", "del", "b/x", why="write 'b/x'")
        store.refused("bob", "put-all", "a/w=1", "b/x=2", why="write 'b/x'")
        store.refused("bob", "put-all", "a/w=1", "--if", "b/x=absent", why="read 'b/x'")
        store.refused("bob", "incr", "b/count", why="read 'b/count'")
        store.refused("bob", "txn", "put", "a/w=1", "b/x=2", why="write 'b/x'")
        store.refused("bob", "scan", why="read all keys with the prefix ''")
        store.refused("bob", "export", str(tmp_path / "out"), why="read all keys with the prefix ''")
        store.refused("bob", "info", why="read every key")
        store.refused("bob", "snapshot", "monday", why="read and write every key")
        store.refused("carol", "get", "in/x", why="read 'in/x'")
        store.refused("carol", "incr", "in/x", why="read 'in/x'")
        store.done("carol", "put", "in/y", "1")
        store.done("carol", "del", "in/x")
        store.refused("p", "get", "a/x", why="read or write any key")
        found = store.kvctl("alice", "get-all", "a/w", "b/x", "in/x", "--json").stdout
        assert [item["found"] for item in json.loads(found)["items"]] == [False, True, False], found
        exported = tmp_path / "exported"
        store.done("bob", "export", "--prefix", "a/", exported)
        assert "secret" not in exported.read_text() and exported.read_text().count("\n") == 4
        store.done("bob", "import", exported)
        store.refused("carol", "import", exported, why="write 'a/")
        store.done("alice", "snapshot", "monday")
        info = json.loads(store.done("alice", "info", "--json"))
        assert info[0]["access"]["rules"] == RULES
        assert sum(one["access"]["refused"]["bob"] for one in info) >= 12
        shown = ask(store.control[0], "stats")["kv"]["access"]
        assert shown["rules"] == RULES and shown["restricted"] == 1
        assert "audit: key-value partition" in store.partitions[0].log.read_text()
        assert "b/x" not in "".join(partition.log.read_text() for partition in store.partitions), "keys may be secrets"


def test_one_sided_reads_and_rings_need_the_right_to_read_every_key(secrets, tmp_path):
    with Store(tmp_path, secrets, ["alice=rw", "bob=rw:a/", "carol=r"]) as store:
        store.done("alice", "put", "a/x", "1")
        for name in ("alice", "carol"):
            for option in (("--one-sided", "on"), ("--transport", "ring")):
                assert store.done(name, *option, "get", "a/x").startswith("1")
        for option, advice in (("--one-sided", "on"), "--one-sided off"), (("--transport", "ring"), "--transport message"):
            result = store.kvctl("bob", *option, "get", "a/x")
            assert result.returncode == NO_RIGHT and advice in result.stderr, result.stderr
        assert store.done("bob", "get", "a/x").startswith("1")


def test_reload_changes_the_rights_of_connected_clients(secrets, tmp_path):
    with Store(tmp_path, secrets, RULES) as store:
        store.done("bob", "put", "a/x", "1")
        store.reload(["alice=rw", "bob=r:a/"])
        until(lambda: store.kvctl("bob", "put", "a/x", "2").returncode == NO_RIGHT, what="the new rules apply")
        assert store.done("bob", "get", "a/x").startswith("1")
        log = store.partitions[0].log
        store.reload(["alice"])
        until(lambda: "rule 'alice'" in log.read_text(), what="the invalid rule is reported")
        store.reload([])
        until(lambda: "kv_access has no rule any more" in log.read_text(), what="the last rule stays")
        store.refused("bob", "put", "a/x", "2", why="write 'a/x'")
        store.config.unlink()
        store.partitions[0].process.send_signal(signal.SIGHUP)
        until(lambda: f"{store.config}: " in log.read_text(), what="the missing file is reported")
        store.refused("bob", "put", "a/x", "2", why="write 'a/x'")
        store.reload(RULES)
        until(lambda: store.kvctl("bob", "put", "a/x", "2").returncode == 0, what="the right is back")


@pytest.mark.parametrize("options, fault", [
    (["--kv-access", "alice=rw"], "give --kv-secrets"),
    (["--kv-access", "alice=all", "--kv-secrets", "{known}"], "rule 'alice=all'"),
    (["--kv-access", "alice=rw", "--kv-secrets", "{known}", "--kv-map", "tls://127.0.0.1:1,tls://127.0.0.1:2"], "NAME=partition"),
])  # fmt: skip
def test_target_refuses_rules_that_cannot_apply(options, fault, secrets):
    words = [option.format(known=secrets["known"]) for option in options]
    done = run(TARGET, "--role", "kv", "--listen", "tls://127.0.0.1:0", "--control", "", *words, check=False)
    assert done.returncode == 2 and fault in done.stderr, done.stderr
