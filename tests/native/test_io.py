# SPDX-License-Identifier: Apache-2.0
"""Tests data that passes through target and plugin: ordinary NBD programs read back what they wrote."""

import json
import os
import random
import re
import threading

import pytest

from .fio import errors, fio, total
from .programs import Target, cpu_seconds, run
from .rawnbd import FUA, READ, TRIM, WRITE, ZEROES, RawNbd

MIB = 1024 * 1024
MIXED = "512/15:4k/25:64k/35:256k/15:1m/10"


def verify_job(offset_mib, size_mib, depth, **more):
    """Returns a job that writes a part of the volume at random, in mixed sizes, and then reads and compares every block."""
    return dict(rw="randwrite", bssplit=MIXED, iodepth=depth, offset=f"{offset_mib}m", size=f"{size_mib}m", **more)


def test_volume_returns_a_gigabyte_of_mixed_random_writes(target, nbd):
    server = nbd(target, "ram")
    report = fio(server.uri,
                 verify_job(0, 64, 1, fsync=16),
                 verify_job(64, 320, 8, fsync=64),
                 verify_job(384, 320, 32),
                 verify_job(704, 384, 64),
                 # Discards and writes of the same blocks in turn, and at the same time plain reads of other
                 # blocks.
                 dict(rw="randtrimwrite", bs="64k", iodepth=1, offset="1088m", size="32m", verify="crc32c"),
                 dict(rw="randread", bssplit=MIXED, iodepth=4, size="64m", offset="1152m", verify="0"),
                 verify="crc32c", verify_fatal=1, randseed=20261121)
    assert errors(report) == [0] * 6
    assert total(report, "write") >= 1024 * MIB
    assert total(report, "read") >= 1024 * MIB, "every block must be read back"
    assert total(report, "trim") >= 16 * MIB
    assert sum(job["sync"]["total_ios"] for job in report["jobs"]) > 0


def test_file_volume_returns_what_fio_wrote(target, nbd):
    server = nbd(target, "file")
    report = fio(server.uri, verify_job(0, 48, 16, fsync=32), verify_job(64, 48, 1, fsync=8),
                 verify="crc32c", verify_fatal=1)
    assert errors(report) == [0, 0]


def test_volume_executes_fua_writes_and_write_zeroes_and_discards(target, nbd):
    server = nbd(target, "file")
    run("qemu-io", "-f", "raw", server.uri,
        "-c", "write -f -P 0xa5 0 1M",  # -f: FUA
        "-c", "write -z 64k 128k",
        "-c", "write -z -u 256k 64k",
        "-c", "discard 512k 64k",
        "-c", "flush",
        "-c", "read -P 0xa5 0 64k",
        "-c", "read -P 0 64k 128k",
        "-c", "read -P 0xa5 192k 64k",
        "-c", "read -P 0 256k 64k",
        "-c", "read -P 0xa5 576k 448k")


def test_qemu_img_and_nbdcopy_copy_an_image_to_a_volume_and_back(target, nbd, tmp_path):
    server = nbd(target, "file")
    info = json.loads(run("qemu-img", "info", "--output=json", server.uri).stdout)
    assert info["virtual-size"] == 256 * MIB
    image = tmp_path / "image"
    with image.open("wb") as out:
        for part in range(64):
            out.write(os.urandom(MIB) if part % 4 != 3 else bytes(MIB))
        out.truncate(256 * MIB)
    run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, server.uri)
    compared = run("qemu-img", "compare", "-f", "raw", "-F", "raw", image, server.uri)
    assert "Images are identical" in compared.stdout
    back = tmp_path / "back"
    run("nbdcopy", server.uri, back)
    assert run("cmp", image, back).returncode == 0
    # nbdcopy writes over four NBD connections at the same time.
    second = nbd(target, "ram")
    run("nbdcopy", "--connections=4", "--flush", image, second.uri)
    assert run("qemu-img", "compare", "-f", "raw", "-F", "raw", image, second.uri, check=False).returncode == 0


def test_two_concurrent_clients_use_the_same_volume(target, nbd):
    first, second = nbd(target, "ram"), nbd(target, "ram", channels=2)
    reports = {}
    threads = [threading.Thread(target=lambda s=server, o=offset: reports.update(
        {o: fio(s.uri, verify_job(o, 128, 32), verify="crc32c", verify_fatal=1)}))
        for offset, server in ((0, first), (128, second))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [errors(reports[offset]) for offset in (0, 128)] == [[0], [0]]
    run("qemu-io", "-f", "raw", first.uri, "-c", "write -P 0x11 0 4k")
    run("qemu-io", "-f", "raw", second.uri, "-c", "read -P 0x11 0 4k")


def test_plugin_reports_the_properties_of_the_volume_to_nbd_clients(target, nbd):
    info = json.loads(run("nbdinfo", "--json", nbd(target, "ram").uri).stdout)["exports"][0]
    assert info["export-size"] == 1536 * MIB
    assert info["block_size_minimum"] == 512
    assert all(info[what] for what in ("can_flush", "can_fua", "can_trim", "can_zero", "can_multi_conn"))
    assert not info["is_read_only"]


def test_export_name_selects_the_volume_if_the_plugin_has_none(target, nbd):
    server = nbd(target, None)
    listed = run("nbdinfo", "--list", "--json", server.uri).stdout
    assert {export["export-name"] for export in json.loads(listed)["exports"]} == {"ram", "file"}
    named = server.uri.replace("nbd+unix:///", "nbd+unix:///file")
    assert json.loads(run("nbdinfo", "--json", named).stdout)["exports"][0]["export-size"] == 256 * MIB


def test_unaligned_write_changes_only_its_own_bytes(listen, nbd, tmp_path):
    chance = random.Random(20261121)
    size = 256 * 1024
    with Target(listen, {"large": "ram:16M,block=4096"}, tmp_path) as target:
        server = nbd(target, "large")
        model = bytearray(size)
        with RawNbd(server.socket) as client:
            for _ in range(400):
                offset = chance.randrange(size)
                length = min(chance.choice([1, 100, 512, 4096, 10000]), size - offset)
                kind = chance.choice([READ, WRITE, WRITE, ZEROES])
                data = chance.randbytes(length) if kind == WRITE else b""
                error, got = client.command(kind, offset, length, data, flags=chance.choice([0, FUA]) if data else 0)
                assert error == 0
                if kind == READ:
                    assert got == model[offset:offset + length]
                else:
                    model[offset:offset + length] = data or bytes(length)
            # A discard of part of a block has no effect.
            assert client.command(TRIM, 1, 4096)[0] == 0
            assert client.command(READ, 0, size) == (0, bytes(model))


def test_concurrent_writes_to_parts_of_one_block_do_not_undo_each_other(listen, nbd, tmp_path):
    with Target(listen, {"large": "ram:16M,block=4096"}, tmp_path) as target:
        server = nbd(target, "large")
        rounds = 200

        def write_own_bytes(number):
            with RawNbd(server.socket) as client:
                for value in range(1, rounds + 1):
                    assert client.command(WRITE, number * 512, 512, bytes([value]) * 512)[0] == 0
                    assert client.command(READ, number * 512, 512)[1] == bytes([value]) * 512

        failures = []
        threads = [threading.Thread(target=lambda n=number: _collect(failures, write_own_bytes, n)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []


def _collect(failures, call, argument):
    try:
        call(argument)
    except AssertionError as error:
        failures.append(f"{argument}: {error}")


@pytest.mark.parametrize("busy_before", [False, True])
def test_idle_processes_use_no_cpu(target, nbd, busy_before):
    server = nbd(target, "ram")
    if busy_before:
        fio(server.uri, dict(rw="randread", bs="4k", size="4m", iodepth=4))
    processes = [target.process.pid, server.process.pid]
    before = [cpu_seconds(pid) for pid in processes]
    # The test measures a duration, so it waits.
    threading.Event().wait(2)
    used = [cpu_seconds(pid) - start for pid, start in zip(processes, before)]
    assert all(seconds <= 0.2 for seconds in used), f"CPU seconds in 2 s, target and nbdkit: {used}"


def test_target_and_nbdkit_stop_without_errors_after_io(target, nbd):
    server = nbd(target, "ram")
    fio(server.uri, dict(rw="randwrite", bs="4k", size="1m", iodepth=4))
    server.stop()
    assert target.stop() == 0
    assert not re.search(r"\b(error|panic|assert)", target.log.read_text())
