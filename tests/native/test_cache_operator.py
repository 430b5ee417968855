# SPDX-License-Identifier: Apache-2.0
"""Tests that operator actions, on a target whose engines hold dirty lines, lose no acknowledged write unless
a command requests that."""

import signal
import subprocess
import time

from .cache_cluster import Cluster, ask, until
from .programs import BUILD, run
from .rawnbd import FLUSH, READ, WRITE, RawNbd

KIB = 1024


def written_by_default(cluster: Cluster, nbd) -> None:
    """Creates a dirty line under write-back as the default policy, and kills the target."""
    with RawNbd(nbd(cluster.target, "disk").socket) as client:
        assert client.command(WRITE, 0, 64 * KIB, b"\xe1" * 64 * KIB)[0] == 0
        assert cluster.dirty() == 1
        cluster.target.kill()


def returns_with_its_data(cluster, nbd, command) -> None:
    """Restarts the target with its original command and verifies the data of written_by_default()."""
    assert cluster.target.stop() == 0
    cluster.target.command = command
    cluster.target.start()
    with RawNbd(nbd(cluster.target, "disk").socket) as client:
        assert client.command(READ, 0, 64 * KIB) == (0, b"\xe1" * 64 * KIB)
        assert client.command(FLUSH, 0, 0)[0] == 0


def test_volume_missing_from_the_command_line_keeps_its_dirty_lines_in_the_engines(tmp_path, nbd):
    with Cluster("shm", tmp_path, engines=2, more=["--cache-policy", "write-back"]) as cluster:
        written_by_default(cluster, nbd)
        command = list(cluster.target.command)
        at = command.index("--volume")
        cluster.target.command = command[:at] + command[at + 2:]
        cluster.target.start()
        absent = until(lambda: not cluster.status()["recovering"] and cluster.status()["absent"], 30, "the target has found the dirty lines")
        assert [(volume["name"], volume["dirty_lines"]) for volume in absent] == [("disk", 1)]
        shown = run(BUILD / "wssctl", "--control", cluster.control, "cache", "status").stdout
        assert "volume disk" in shown and "is not open" in shown and "cache give-up disk" in shown
        returns_with_its_data(cluster, nbd, command)


def without(command: list[str], *options: str) -> list[str]:
    """Returns the command without these options and their values."""
    values = {at + 1 for at, word in enumerate(command) if word in options}
    return [word for at, word in enumerate(command) if word not in options and at not in values]


def test_target_without_the_cache_serves_no_volume_with_dirty_lines(tmp_path, nbd):
    with Cluster("shm", tmp_path, engines=2, more=["--cache-policy", "write-back"]) as cluster:
        written_by_default(cluster, nbd)
        command = list(cluster.target.command)
        cluster.target.command = without(command, "--cache-listen", "--cache-policy", "--cache-read-ahead")
        cluster.target.start()
        shown = run(BUILD / "wssctl", "--control", cluster.control, "volume", "list").stdout
        assert "disk" in shown and "start it with --cache-listen" in shown, shown
        returns_with_its_data(cluster, nbd, command)


def test_target_serves_storage_with_dirty_lines_under_no_other_name(tmp_path, nbd):
    with Cluster("shm", tmp_path, engines=2, more=["--cache-policy", "write-back"]) as cluster:
        written_by_default(cluster, nbd)
        command = list(cluster.target.command)
        (tmp_path / "link").symlink_to(tmp_path)
        (tmp_path / "same.img").hardlink_to(tmp_path / "disk.img")
        for other in [f"aio:{tmp_path}/disk.img", f"pool:2:{tmp_path}/link/disk.img", f"aio:{tmp_path}/same.img"]:
            cluster.target.command = [f"renamed={other},size=64M" if word.startswith("disk=") else word for word in command]
            for uncached in [False, True]:
                if uncached:
                    cluster.target.command = without(cluster.target.command, "--cache-listen", "--cache-policy", "--cache-read-ahead")
                cluster.target.start()
                shown = run(BUILD / "wssctl", "--control", cluster.control, "volume", "list").stdout
                assert "renamed" in shown and "cache engines may hold acknowledged writes of volume disk" in shown, shown
                assert cluster.target.stop() == 0
        cluster.target.command = command
        cluster.target.start()
        returns_with_its_data(cluster, nbd, command)


def test_engines_with_dirty_lines_join_no_target_with_a_different_state(tmp_path, nbd):
    with Cluster("shm", tmp_path, engines=2, more=["--cache-policy", "write-back"]) as cluster:
        written_by_default(cluster, nbd)
        command = list(cluster.target.command)
        (tmp_path / "other").mkdir()
        at = command.index("--state") + 1
        cluster.target.command = [*command[:at], str(tmp_path / "other/state.json"), *command[at + 1:]]
        cluster.target.start()
        for engine in cluster.engines:
            until(lambda engine=engine: "holds 1 dirty lines of another target" in engine.log.read_text(), 15, "the engine refuses to join")
        assert not cluster.live()
        cluster.target.kill()
        cluster.target.command = command
        cluster.target.start()
        returns_with_its_data(cluster, nbd, command)


def test_engines_without_dirty_lines_join_another_target(tmp_path, nbd):
    with Cluster("shm", tmp_path, engines=2, more=["--cache-policy", "write-back"]) as cluster:
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(WRITE, 0, 64 * KIB, b"\xe1" * 64 * KIB)[0] == 0
        assert cluster.target.stop() == 0
        (tmp_path / "state.json").unlink()
        (tmp_path / "state.json.cache").unlink()
        cluster.target.start()
        cluster.wait_for_engines(2)


def test_shrink_discards_dirty_lines_beyond_the_new_end(tmp_path, nbd):
    with Cluster("shm", tmp_path, engines=2, more=["--cache-policy", "write-back"]) as cluster:
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(WRITE, 0, 64 * KIB, b"\xe1" * 64 * KIB)[0] == 0
            assert cluster.dirty() == 1
        ask(cluster.control, "volume.resize", name="disk", size=20 * KIB + 512)
        ask(cluster.control, "volume.resize", name="disk", size=64 * KIB)
        wanted = b"\xe1" * (20 * KIB + 512) + bytes(64 * KIB - 20 * KIB - 512)
        # nbdkit reports the size that the volume had when the client connected.
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(READ, 0, 64 * KIB) == (0, wanted)
            assert client.command(FLUSH, 0, 0)[0] == 0
            assert client.command(READ, 0, 64 * KIB) == (0, wanted)


def test_write_back_by_default_needs_a_state_file():
    ended = subprocess.run([BUILD / "wss-target", "--listen", "tcp://127.0.0.1:0", "--control", "", "--cache-listen",
                            "tcp://127.0.0.1:0", "--cache-policy", "write-back", "--volume", "disk=delay:us=1:ram:8M"],
                           capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2 and "--state" in ended.stderr, ended.stderr


def test_failed_start_without_the_storage_of_a_volume_loses_none_of_its_dirty_lines(tmp_path, nbd):
    image, elsewhere = tmp_path / "disk.img", tmp_path / "elsewhere.img"
    image.write_bytes(bytes(8 << 20))
    with Cluster("shm", tmp_path, engines=2, more=["--cache-policy", "write-back"],
                 volumes={"disk": f"aio:{image}"}) as cluster:
        written_by_default(cluster, nbd)
        image.rename(elsewhere)  # as if its file system were not mounted yet
        ended = subprocess.run(cluster.target.command, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 1, ended.stderr
        elsewhere.rename(image)
        cluster.target.start()
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(READ, 0, 64 * KIB) == (0, b"\xe1" * 64 * KIB)
            assert client.command(FLUSH, 0, 0)[0] == 0


def test_start_that_cannot_write_its_state_loses_no_dirty_lines(tmp_path, nbd):
    with Cluster("shm", tmp_path, engines=2, more=["--cache-policy", "write-back"]) as cluster:
        written_by_default(cluster, nbd)
        blocker = tmp_path / "state.json.new"  # makes the replacement of the state file fail
        blocker.mkdir()
        cluster.target.start()
        blocker.rmdir()
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(READ, 0, 64 * KIB) == (0, b"\xe1" * 64 * KIB)
            assert client.command(FLUSH, 0, 0)[0] == 0


def test_cache_status_names_the_engines_that_recovery_waits_for(tmp_path, nbd):
    with Cluster("shm", tmp_path, engines=2, more=["--cache-policy", "write-back"]) as cluster:
        written_by_default(cluster, nbd)
        identities = sorted(ask(engine.control, "engine.status")["identity"] for engine in cluster.engines)
        for engine in cluster.engines:
            engine.kill()
        cluster.target.start()
        assert cluster.status()["awaited"] == identities
        status = run(BUILD / "wssctl", "--control", cluster.control, "cache", "status").stdout
        assert f"waiting for cache engines that may hold acknowledged writes: {', '.join(identities)} (" in status
        ask(cluster.control, "cache.forget")
        assert until(lambda: not cluster.status()["recovering"], 10, "the recovery has ended")
        assert cluster.status()["awaited"] == []


def test_errors_during_a_recovery_name_the_engines_that_it_waits_for(tmp_path, nbd):
    with Cluster("shm", tmp_path, engines=2, more=["--cache-policy", "write-back"]) as cluster:
        written_by_default(cluster, nbd)
        for engine in cluster.engines:
            engine.kill()
        cluster.target.start()
        assert until(lambda: cluster.status()["recovering"], 10, "a recovery has begun")
        for words in (["drain"], ["drain", "disk"], ["policy", "disk", "write-through"]):
            refused = wssctl(cluster, "cache", *words)
            assert refused.returncode == 1 and "wssctl cache forget" in refused.stderr, refused.stderr
            assert all(engine in refused.stderr for engine in cluster.status()["awaited"]), refused.stderr
        began = time.monotonic()
        cluster.target.stop()
        assert time.monotonic() - began < 10
        cluster.target.start()


def test_error_of_a_drain_names_each_volume_whose_storage_fails(tmp_path, nbd):
    volumes = {name: f"error:op=write,errno=EIO:aio:{tmp_path}/{name}.img,size=8M,create" for name in ("first", "second")}
    with Cluster("shm", tmp_path, engines=2, more=["--cache-policy", "write-back"], volumes=volumes) as cluster:
        for name in volumes:
            with RawNbd(nbd(cluster.target, name).socket) as client:
                assert client.command(WRITE, 0, 64 * KIB, b"\xe1" * 64 * KIB)[0] == 0
        drained = wssctl(cluster, "cache", "drain")
        assert drained.returncode == 1 and all(f"volume {name}" in drained.stderr for name in volumes), drained.stderr


def test_engine_that_stops_while_storage_fails_reports_the_lines_that_are_lost_with_it(tmp_path, nbd):
    volumes = {"disk": f"error:op=write,errno=EIO:aio:{tmp_path}/disk.img,size=8M,create"}
    with Cluster("shm", tmp_path, engines=2, more=["--cache-policy", "write-back"], volumes=volumes) as cluster:
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            for line in range(3):
                assert client.command(WRITE, line * 64 * KIB, 64 * KIB, b"\xe1" * 64 * KIB)[0] == 0
            leaving = cluster.engines.pop()
            leaving.process.send_signal(signal.SIGTERM)
            until(lambda: "3 lines with acknowledged writes" in leaving.log.read_text(), 10, "the engine logs why it waits")
            assert leaving.process.wait(30) == 1
            assert "up to 3 lines with acknowledged writes are removed with this cache engine" in leaving.log.read_text()
            assert client.command(READ, 0, 64 * KIB) == (0, b"\xe1" * 64 * KIB), "the other engine must have a copy"


def wssctl(cluster: Cluster, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([BUILD / "wssctl", "--control", cluster.control, *words], capture_output=True, text=True, timeout=60)


def test_deleted_volume_leaves_all_acknowledged_writes_in_its_file(tmp_path, nbd):
    image = tmp_path / "disk.img"
    with Cluster("shm", tmp_path, engines=2, more=["--cache-policy", "write-back"],
                 volumes={"disk": f"aio:{image},size=8M,create"}) as cluster:
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(WRITE, 64 * KIB, 64 * KIB, b"\xe1" * 64 * KIB)[0] == 0
            assert cluster.dirty() == 1
            deleted = wssctl(cluster, "volume", "delete", "disk")
            assert deleted.returncode == 0, deleted.stderr
        assert cluster.dirty() == 0
        assert image.read_bytes()[64 * KIB:128 * KIB] == b"\xe1" * 64 * KIB


def test_volume_whose_storage_rejects_its_dirty_lines_is_deleted_only_with_give_up_dirty(tmp_path, nbd):
    volumes = {"disk": f"error:op=write,errno=EIO:aio:{tmp_path}/disk.img,size=8M,create"}
    with Cluster("shm", tmp_path, engines=2, more=["--cache-policy", "write-back"], volumes=volumes) as cluster:
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(WRITE, 0, 64 * KIB, b"\xe1" * 64 * KIB)[0] == 0
            refused = wssctl(cluster, "volume", "delete", "disk")
            assert refused.returncode == 1 and "1 lines (at most 64.0 KiB)" in refused.stderr, refused.stderr
            assert "Input/output error" in refused.stderr
            assert "wssctl volume delete disk --give-up-dirty" in refused.stderr
            assert client.command(READ, 0, 64 * KIB) == (0, b"\xe1" * 64 * KIB)
            assert cluster.dirty() == 1
            assert wssctl(cluster, "volume", "delete", "disk", "--give-up-dirty").returncode == 0
        until(lambda: cluster.dirty() == 0, 10, "the lines are gone")
