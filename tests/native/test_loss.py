# SPDX-License-Identifier: Apache-2.0
"""Tests the loss of the target: I/O fails in bounded time, or continues when the target returns."""

import subprocess
import time

from .fio import fio
from .programs import Target, run

FILE_VOLUME = "aio:{}/disk.img,size=64M,create"


def start_fio(uri, *more):
    return subprocess.Popen(["fio", "--name=loss", "--ioengine=nbd", f"--uri={uri}", "--rw=randwrite", "--bs=16k",
                             "--size=64m", "--iodepth=16", "--time_based", "--runtime=60", *more],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_io(server, process, seconds=20):
    """Waits until I/O is in progress, that is, until nbdkit uses processor time."""
    from .programs import cpu_seconds
    deadline = time.monotonic() + seconds
    while cpu_seconds(server.process.pid) < 0.05:
        assert process.poll() is None and time.monotonic() < deadline, "fio does no I/O"
        time.sleep(0.01)


def test_io_fails_in_bounded_time_after_its_target_is_killed(listen, nbd, tmp_path):
    target = Target(listen, {"disk": FILE_VOLUME.format(tmp_path)}, tmp_path).start()
    server = nbd(target, "disk", reconnect_timeout=1)
    process = start_fio(server.uri)
    try:
        wait_for_io(server, process)
        target.kill()
        killed = time.monotonic()
        output, _ = process.communicate(timeout=30)
        assert time.monotonic() - killed < 20
        assert process.returncode != 0
        assert "error" in output
    finally:
        process.kill()
        process.communicate()
    # Later requests fail as well.
    asked = time.monotonic()
    assert run("qemu-io", "-f", "raw", server.uri, "-c", "read 0 4k", check=False, timeout=30).returncode != 0
    assert time.monotonic() - asked < 15
    assert "connection lost" in server.log.read_text()


def test_io_continues_after_its_target_restarts(listen, nbd, tmp_path):
    volumes = {"disk": FILE_VOLUME.format(tmp_path)}
    state = ("--state", str(tmp_path / "state"))
    target = Target(listen, volumes, tmp_path, *state).start()
    server = nbd(target, "disk", reconnect_timeout=30)
    try:
        fio(server.uri, dict(rw="write", bs="64k", size="8m", offset="0", iodepth=8, verify="crc32c", do_verify=0))
        process = start_fio(server.uri, "--offset=16m", "--runtime=4", "--size=16m")
        wait_for_io(server, process)
        target.kill()
        target = Target(target.address, volumes, tmp_path, *state).start()
        output, _ = process.communicate(timeout=40)
        assert process.returncode == 0, output
        # Read what was written before the crash.
        fio(server.uri, dict(rw="write", bs="64k", size="8m", offset="0", iodepth=8, verify="crc32c", verify_only=1))
    finally:
        target.kill()
    assert "reconnected" in server.log.read_text()


def test_target_stops_while_a_client_is_connected(listen, nbd, tmp_path):
    target = Target(listen, {"disk": "ram:16M"}, tmp_path).start()
    nbd(target, "disk")
    assert target.stop() == 0
