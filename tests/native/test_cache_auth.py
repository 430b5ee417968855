# SPDX-License-Identifier: Apache-2.0
"""Tests which engines may join a target, and which targets an engine accepts, with right, wrong and missing
secrets."""

import signal

import pytest

from .cache_cluster import Cluster, until
from .programs import BUILD, run


@pytest.fixture(params=["tcp", "shm"])
def kind(request):
    return request.param


@pytest.fixture
def keys(tmp_path):
    return {name: run(BUILD / "wssctl", "secret", name).stdout.strip() for name in ("one", "two")}


def secret_file(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(0o600)
    return path


def guarded(kind, directory, keys, engines=0):
    book = secret_file(directory / "engines.secrets", *keys.values())
    return Cluster(kind, directory, engines=engines, more=("--cache-secrets", str(book)))


def give(engine, path):
    engine.command += ["--secret-file", str(path)]
    return engine


def said(engine):
    return engine.status()["storages"][0]["error"]


def test_engines_with_the_right_secret_join_and_serve_and_rejoin_after_a_restart_of_the_target(kind, tmp_path, nbd, keys):
    cluster = guarded(kind, tmp_path, keys, engines=2)
    for engine, name in zip(cluster.engines, keys):
        give(engine, secret_file(tmp_path / name, keys[name]))
    with cluster:
        server = nbd(cluster.target, "disk")
        run("qemu-io", "-f", "raw", server.uri, "-c", "write -P 0x5a 0 1M", "-c", "read -P 0x5a 0 1M")
        cluster.wait_for_clients()
        until(lambda: cluster.counters()["fills"] >= 16, what="every line is filled")
        run("qemu-io", "-f", "raw", "-r", server.uri, "-c", "read -P 0x5a 0 1M")
        assert cluster.counters()["out_of_band_reads"] > 0
        cluster.target.kill()
        cluster.target.start()
        cluster.wait_for_engines(2, 60)
        assert "cache engines authenticate" in cluster.target.log.read_text()


@pytest.mark.parametrize("line, why", [
    ("one:this-is-not-the-secret-of-one", "could not prove that it knows the secret of 'one'"),
    ("three:this-is-a-secret-of-nobody", "could not prove that it knows the secret of 'three'"),
    (None, "the target accepts only cache engines that authenticate: use --secret-file"),
])
def test_target_refuses_an_engine_with_a_wrong_or_missing_secret_with_the_reason(kind, tmp_path, keys, line, why):
    with guarded(kind, tmp_path, keys) as cluster:
        engine = cluster.add_engine("unknown", start=False)
        if line is not None:
            give(engine, secret_file(tmp_path / "wrong", line))
        engine.start()
        until(lambda: why in said(engine), 30, "the engine reports the reason")
        assert cluster.status()["engines"] == []
        assert why in engine.log.read_text()
        if line is not None:
            log = cluster.target.log.read_text()
            assert "refused: it has another secret" in log or "refused: unknown initiator" in log, log
            assert line.split(":")[1] not in log + engine.log.read_text()
        # In the meantime another engine can join.
        give(cluster.add_engine("right", start=False), secret_file(tmp_path / "right", keys["two"])).start()
        cluster.wait_for_engines(1, 60)


def test_engine_with_a_secret_does_not_join_a_target_without_authentication(kind, tmp_path, keys):
    with Cluster(kind, tmp_path, engines=0) as cluster:
        engine = give(cluster.add_engine("careful", start=False), secret_file(tmp_path / "mine", keys["one"])).start()
        until(lambda: "the target does not authenticate" in said(engine), 30, "the engine reports the reason")
        assert cluster.status()["engines"] == []
        assert "CACHE ENGINES DO NOT AUTHENTICATE" in cluster.target.log.read_text()


def test_engine_rejoins_only_a_target_with_the_name_of_its_first_join(kind, tmp_path, keys):
    with guarded(kind, tmp_path, keys) as cluster:
        engine = give(cluster.add_engine("loyal", start=False), secret_file(tmp_path / "one", keys["one"])).start()
        cluster.wait_for_engines(1, 60)
        cluster.target.kill()
        cluster.target.command += ["--name", "another"]
        cluster.target.start()
        until(lambda: "the target there is 'another', but" in said(engine), 30, "the engine reports the reason")
        assert cluster.status()["engines"] == []
        cluster.target.kill()
        del cluster.target.command[-2:]
        cluster.target.start()
        cluster.wait_for_engines(1, 60)


def test_reload_replaces_the_secrets_of_engines_and_keeps_joined_engines(kind, tmp_path, keys):
    book = secret_file(tmp_path / "book", keys["one"])
    with Cluster(kind, tmp_path, engines=0, more=("--cache-secrets", str(book))) as cluster:
        first = give(cluster.add_engine("first", start=False), secret_file(tmp_path / "one", keys["one"])).start()
        cluster.wait_for_engines(1, 60)
        second = give(cluster.add_engine("second", start=False), secret_file(tmp_path / "two", keys["two"])).start()
        until(lambda: "the secret of 'two'" in said(second), 30, "the target does not know the new secret")
        secret_file(book, keys["two"])
        cluster.target.process.send_signal(signal.SIGHUP)
        cluster.wait_for_engines(2, 60)
        first.kill()
        first.start()
        until(lambda: "the secret of 'one'" in said(first), 30, "the target does not know the replaced secret")
        secret_file(book, "no secret")
        cluster.target.process.send_signal(signal.SIGHUP)
        until(lambda: "continuing with the files loaded before" in cluster.target.log.read_text(), what="the reload has failed")
        assert "--cache-secrets" in cluster.target.log.read_text()
        give(cluster.add_engine("third", start=False), secret_file(tmp_path / "two", keys["two"])).start()
        cluster.wait_for_engines(2, 60)


def test_target_that_authenticates_initiators_requires_an_option_for_engine_authentication(tmp_path, keys):
    book = secret_file(tmp_path / "book", *keys.values())
    command = [BUILD / "wss-target", "--listen", "tcp://127.0.0.1:0", "--control", "", "--volume", "v=ram:1M",
               "--cache-listen", "tcp://127.0.0.1:0", "--secrets", book]
    done = run(*command, check=False)
    assert done.returncode == 2 and "use --cache-secrets FILE, or --cache-auth-off" in done.stderr, done.stderr
    done = run(*command, "--cache-secrets", book, "--cache-auth-off", check=False)
    assert done.returncode == 2 and "exclude each other" in done.stderr, done.stderr
