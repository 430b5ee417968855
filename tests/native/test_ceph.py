# SPDX-License-Identifier: Apache-2.0
"""Volumes on images of a real Ceph cluster: the datapath, sizes, snapshots, owners and rejected specifications."""

import os
import random
import re
import signal
import subprocess
import threading
import time

import pytest

from .cache_cluster import ControlError, ask, until
from .fio import fio
from .programs import BUILD, Target, cpu_seconds, pause, run
from .rawnbd import FLUSH, FUA, READ, TRIM, WRITE, ZEROES, RawNbd

KIB, MIB = 1024, 1024 * 1024
EIO = 5


def start_target(ceph, directory, specification: str, *more) -> Target:
    directory.mkdir(exist_ok=True)
    control = directory / "target.sock"
    target = Target("tcp://127.0.0.1:0", {"disk": specification}, directory, "--control", str(control), "--drain-seconds", "5", *more)
    target.control = control
    return target


def refusal(ceph, directory, specification: str) -> str:
    """Returns the error output of a target that cannot open the volume."""
    target = start_target(ceph, directory, specification)
    with pytest.raises(AssertionError, match="did not become ready"):
        target.start()
    return target.log.read_text()


def volume(target) -> dict:
    return ask(target.control, "volume.list")[0]


@pytest.mark.skipif(not (BUILD / "unit_tests").exists(), reason="make check-ceph builds the unit tests")
def test_image_passes_the_backend_conformance_tests(ceph):
    image = ceph.backend(ceph.create_image("8M"))
    run(BUILD / "unit_tests", "--gtest_filter=All/EachBackend.*/rbd", timeout=300, env={**os.environ, "WSS_TEST_IMAGE": image})


def test_exported_image_contains_the_written_data(ceph, tmp_path, nbd):
    image = ceph.create_image("16M")
    content = bytearray(random.Random(1).randbytes(16 * MIB))
    with start_target(ceph, tmp_path, ceph.backend(image)) as target:
        with RawNbd(nbd(target, "disk").socket) as client:
            for at in range(0, 16 * MIB, MIB):
                assert client.command(WRITE, at, MIB, bytes(content[at:at + MIB]), FUA if at // MIB % 2 else 0)[0] == 0
            for kind, at, length in ((TRIM, MIB + 4 * KIB, 6 * MIB), (ZEROES, 9 * MIB + 512, 3 * KIB)):
                assert client.command(kind, at, length)[0] == 0
                content[at:at + length] = bytes(length)
            assert client.command(FLUSH, 0, 0)[0] == 0
            for at in range(0, 16 * MIB, MIB):
                assert client.command(READ, at, MIB) == (0, bytes(content[at:at + MIB])), at
    ceph.rbd("export", image, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == bytes(content)


def test_idle_target_with_an_image_uses_no_processor_time(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path, ceph.backend(image)) as target:
        with RawNbd(nbd(target, "disk").socket) as client:
            for block in range(64):
                assert client.command(WRITE, block * 4 * KIB, 4 * KIB, b"1" * 4 * KIB)[0] == 0
                time.sleep(0.01)  # the reactor sleeps meanwhile, and Ceph's answer has to wake it
            before = cpu_seconds(target.process.pid)
            time.sleep(4)
            assert cpu_seconds(target.process.pid) - before < 0.2


def test_volume_follows_an_image_that_is_resized_elsewhere(ceph, tmp_path, nbd):
    image = ceph.create_image("16M")
    with start_target(ceph, tmp_path, ceph.backend(image)) as target:
        for size in (32, 8, 64):
            ceph.rbd("resize", "--allow-shrink", "--size", f"{size}M", image)
            until(lambda: volume(target)["size"] == size * MIB, 30, f"the volume has {size} MiB")
        with RawNbd(nbd(target, "disk").socket) as client:
            assert client.size == 64 * MIB
            assert client.command(WRITE, 63 * MIB, 4 * KIB, b"x" * 4 * KIB)[0] == 0
        ask(target.control, "volume.resize", name="disk", size="24M")
        assert f'"size":{24 * MIB}' in ceph.rbd("info", "--format", "json", image)


RESIZE = """
import rados, rbd, sys
conf, pool, name, small, large, times = sys.argv[1:]
with rados.Rados(conffile=conf) as cluster, cluster.open_ioctx(pool) as pools, rbd.Image(pools, name) as image:
    for _ in range(int(times)):
        image.resize(int(small))
        image.resize(int(large))
"""


def test_target_detects_each_of_many_resizes_in_quick_succession(ceph, tmp_path):
    image = ceph.create_image("16M")
    with start_target(ceph, tmp_path, ceph.backend(image)) as target:
        run("/usr/bin/python3", "-c", RESIZE, ceph.conf, *image.split("/"), 8 * MIB, 16 * MIB, 30, timeout=120)
        until(lambda: volume(target)["size"] == 16 * MIB, 30, "the volume takes the new size")
        said = target.log.read_text()
        assert said.count("was resized from 16.0 MiB to 8.00 MiB") == 30, said


def test_snapshot_serves_former_data_and_rejects_writes(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path / "a", ceph.backend(image)) as target:
        with RawNbd(nbd(target, "disk").socket) as client:
            assert client.command(WRITE, 0, 4 * KIB, b"1" * 4 * KIB)[0] == 0
            ceph.rbd("snap", "create", f"{image}@then")
            assert client.command(WRITE, 0, 4 * KIB, b"2" * 4 * KIB)[0] == 0
        with start_target(ceph, tmp_path / "b", ceph.backend(f"{image}@then") + ",ro") as snapshot:
            with RawNbd(nbd(snapshot, "disk").socket) as client:
                assert client.command(READ, 0, 4 * KIB) == (0, b"1" * 4 * KIB)
                assert client.command(WRITE, 0, 4 * KIB, b"3" * 4 * KIB)[0] != 0


def test_error_explains_why_an_image_cannot_be_opened(ceph, tmp_path):
    image = ceph.create_image("8M")
    bare = ceph.create_image("8M", "--image-feature", "layering")
    cached = ceph.create_image("8M")
    ceph.rbd("config", "image", "set", cached, "rbd_cache", "true")
    other_keyring = tmp_path / "keyring"
    other_keyring.write_text("[client.admin]\n\tkey = AQBSdFhfAAAAABAAYWJjZGVmZ2hpamtsbW5vcA==\n")
    nowhere = tmp_path / "nowhere.conf"
    nowhere.write_text(f"[global]\nmon host = [v2:127.0.0.1:1/0]\nkeyring = {ceph.folder}/keyring\n")
    unnamed = tmp_path / "unnamed.conf"
    unnamed.write_text(f"[global]\nmon host = monitor.invalid\nkeyring = {ceph.folder}/keyring\n")
    text = tmp_path / "text"
    text.write_text("this is {no configuration\n")
    moving = ceph.create_image("8M")
    ceph.rbd("bench", "--io-type", "write", "--io-size", "1M", "--io-total", "4M", moving)
    ceph.rbd("migration", "prepare", moving, f"{moving}-moved")
    wrong = [(ceph.backend("rbd/none"), "there is no such image"),
             (ceph.backend("none/disk"), "there is no pool none"),
             (ceph.backend(f"{image}@none") + ",ro", "no such snapshot"),
             (ceph.backend(image, keyring=other_keyring), "its key is wrong"),
             (ceph.backend(image, id="nobody"), "client.nobody"),
             (ceph.backend(image, keyring=nowhere), "has no key for it"),
             (ceph.backend(image, keyring=tmp_path), "is a directory"),
             (ceph.backend(image, keyring=text), "is not a keyring"),
             (ceph.backend(image, conf=tmp_path), "is a directory"),
             (ceph.backend(image, conf=text), f"the syntax of {text} is wrong"),
             (ceph.backend(f"{moving}-moved"), "rbd migration execute"),
             (ceph.backend(bare), "exclusive-lock"),
             (ceph.backend(cached), "rbd config image rm"),
             (ceph.backend(f"{image}@x"), "read-only"),
             (ceph.backend(image, conf=nowhere, mount_timeout=2), "mount_timeout"),
             (ceph.backend(image, conf=tmp_path / "none.conf"), "none.conf"),
             (ceph.backend(image) + ",create", "rbd create")]
    for specification, word in wrong:
        assert word in refusal(ceph, tmp_path / "t", specification), specification
    # In these cases librados writes to the standard output, which must be empty until the target is ready.
    empty = tmp_path / "empty.conf"
    empty.touch()
    for conf, word in ((unnamed, "no address of a monitor"), (empty, f"{empty} names no monitor (mon_host)")):
        unready = run(*start_target(ceph, tmp_path / "t", ceph.backend(image, conf=conf)).command, check=False)
        assert word in unready.stderr and unready.stdout == ""


def test_error_names_an_invalid_setting_that_prevents_librados_from_connecting(ceph, tmp_path):
    image = ceph.create_image("8M")
    conf = tmp_path / "ceph.conf"
    with start_target(ceph, tmp_path, "ram:8M") as target:

        def create_fails(why: str) -> None:
            started = time.monotonic()
            with pytest.raises(ControlError, match=why):
                ask(target.control, "volume.create", name="image", backend=ceph.backend(image, conf=conf))
            assert time.monotonic() - started < 5

        for name in ("ms_client_mode", "ms_mon_client_mode", "auth_client_required", "auth_supported"):
            conf.write_text(f"{ceph.conf.read_text()}[client]\n{name} = junk\n")
            create_fails(f"{name} = junk in {conf}: librados cannot connect")
        conf.write_text(f"{ceph.conf.read_text()}[client]\nauth_client_required = none\n")
        create_fails("auth_client_required = none in .*it requires cephx")
        conf.write_text(ceph.conf.read_text())
        ceph.ceph("config", "set", "client", "ms_client_mode", "junk", "--ms_client_mode=crc")
        try:
            create_fails("ms_client_mode = junk in the configuration that the monitors send")
        finally:
            ceph.ceph("config", "rm", "client", "ms_client_mode", "--ms_client_mode=crc")


@pytest.mark.parametrize(("name", "value"), [("ms_type", "nonsense"), ("ms_public_type", "nonsense"), ("ms_type", "async+rdma"),
                                             ("heartbeat_interval", "-1"), ("auth_client_required", "gss"),
                                             ("objecter_completion_locks_per_session", "0"), ("rbd_op_threads", 2**63 - 1)])  # fmt: skip
def test_configuration_that_would_crash_librados_affects_no_other_volume(ceph, tmp_path, name, value):
    conf = tmp_path / "ceph.conf"
    conf.write_text(f"{ceph.conf.read_text()}[client]\n{name} = {value}\n")
    with start_target(ceph, tmp_path, "ram:8M") as target:
        with pytest.raises(ControlError, match=f"{name} = {re.escape(str(value))} in {conf}"):
            ask(target.control, "volume.create", name="image", backend=ceph.backend(ceph.create_image("8M"), conf=conf))
        assert volume(target)["name"] == "disk"


def test_target_immediately_refuses_a_fifo_as_configuration_or_keyring(ceph, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    named = tmp_path / "ceph.conf"
    named.write_text(f"{ceph.conf.read_text()}[client]\nkeyring = /none,{fifo}\n")
    long = tmp_path / "long.conf"
    long.write_text(f"{ceph.conf.read_text()}[client]\nkeyring = {'/none,' * 1000}{fifo}\n")
    with start_target(ceph, tmp_path, "ram:8M") as target:
        for backend in (ceph.backend("rbd/disk", conf=fifo), ceph.backend("rbd/disk", keyring=fifo), ceph.backend("rbd/disk", conf=named),
                        ceph.backend("rbd/disk", conf=long), ceph.backend("rbd/disk", keyring=f"/none;{fifo}")):
            started = time.monotonic()
            with pytest.raises(ControlError, match=f"{fifo} is a FIFO"):
                ask(target.control, "volume.create", name="image", backend=backend)
            assert time.monotonic() - started < 5


def test_unbounded_log_set_in_a_file_or_by_a_monitor_crashes_no_target(ceph, tmp_path):
    conf = tmp_path / "ceph.conf"
    conf.write_text(f"{ceph.conf.read_text()}[client]\nlog_max_recent = {2**63 - 1}\n")
    images = [ceph.create_image("8M") for _ in range(2)]
    with start_target(ceph, tmp_path, ceph.backend(images[0], conf=conf)) as target:
        # Other clients of the cluster crash while the monitors send this setting. So the ceph commands of this test override it.
        ceph.ceph("config", "set", "client", "log_max_recent", 2**63 - 1, "--log_max_recent=500")
        try:
            ask(target.control, "volume.create", name="other", backend=ceph.backend(images[1]))
            assert [one["trouble"] for one in ask(target.control, "volume.list")] == ["", ""]
        finally:
            ceph.ceph("config", "rm", "client", "log_max_recent", "--log_max_recent=500")


def test_settings_from_the_monitors_do_not_override_checked_settings(ceph, tmp_path):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path, "ram:8M") as target:
        ceph.ceph("config", "set", "client", "ms_type", "nonsense", "--ms_type=async+posix")
        try:
            ask(target.control, "volume.create", name="image", backend=ceph.backend(image))
        finally:
            ceph.ceph("config", "rm", "client", "ms_type", "--ms_type=async+posix")


def test_error_names_a_plug_in_that_librbd_does_not_have(ceph, tmp_path):
    conf = tmp_path / "ceph.conf"
    conf.write_text(f"{ceph.conf.read_text()}[client]\nrbd_plugins = junk\n")
    image = ceph.create_image("8M")
    assert f"rbd_plugins = junk; remove it from {conf}" in refusal(ceph, tmp_path, ceph.backend(image, conf=conf))
    ceph.rbd("image-meta", "set", image, "conf_rbd_plugins", "junk")
    said = refusal(ceph, tmp_path, ceph.backend(image))
    assert "the image names: rbd_plugins = junk" in said
    run("rados", "-c", ceph.conf, *re.search(r"rados (-p rbd rmomapkey \S+ metadata_conf_rbd_plugins)", said)[1].split())
    with start_target(ceph, tmp_path, ceph.backend(image)) as target:
        assert volume(target)["trouble"] == ""


def test_error_for_a_resize_beyond_the_limit_of_the_object_map_names_the_limit(ceph, tmp_path):
    image = ceph.create_image("8M", "--object-size", "4K")
    with start_target(ceph, tmp_path, ceph.backend(image)) as target:
        with pytest.raises(ControlError, match=rf"limit of the feature object-map, which is .*: rbd feature disable {image} fast-diff object-map"):
            ask(target.control, "volume.resize", name="disk", size="1T")
        ceph.rbd("feature", "disable", image, "fast-diff", "object-map")
        ask(target.control, "volume.resize", name="disk", size="1T")
        assert volume(target)["size"] == 1 << 40


def test_requests_delayed_by_qos_limits_of_an_image_succeed_and_the_target_names_the_limits(ceph, tmp_path, nbd):
    throttled, later = (ceph.create_image("8M") for _ in range(2))
    ceph.rbd("config", "image", "set", throttled, "rbd_qos_iops_limit", "1")
    with start_target(ceph, tmp_path, ceph.backend(throttled, osd_timeout=5)) as target:
        assert "requests to enforce limits of the image, its pool or ceph.conf: rbd_qos_iops_limit = 1." in target.log.read_text()
        ask(target.control, "volume.create", name="later", backend=ceph.backend(later, osd_timeout=5))
        ceph.rbd("config", "image", "set", later, "rbd_qos_write_iops_limit", "1")
        answers = []

        def write(disk: str, block: int) -> None:
            with RawNbd(sockets[disk], timeout=60) as client:
                answers.append(client.command(WRITE, block * 4 * KIB, 4 * KIB, b"x" * 4 * KIB)[0])

        def trouble() -> dict:
            return {one["name"]: one["trouble"] for one in ask(target.control, "volume.list")}

        sockets = {disk: nbd(target, disk).socket for disk in ("disk", "later")}
        writers = [threading.Thread(target=write, args=(disk, block)) for disk in sockets for block in range(16)]
        for writer in writers:
            writer.start()
        until(lambda: "requests wait for Ceph, or for rbd_qos_iops_limit = 1, the oldest" in trouble()["disk"], 12, "the limit is shown")
        # The same applies to a limit that was set after the image was opened.
        until(lambda: "requests wait for Ceph, or for rbd_qos_write_iops_limit = 1, the oldest" in trouble()["later"], 12, "the limit is shown")
        for writer in writers:
            writer.join(60)
        assert answers == [0] * len(writers)
        until(lambda: trouble() == {"disk": "", "later": ""}, 10, "the end of the wait is shown")


def test_profile_rbd_suffices_for_the_user_of_a_target(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    keyring = ceph.user("wss", "mon", "profile rbd", "osd", "profile rbd")
    with start_target(ceph, tmp_path, ceph.backend(image, id="wss", keyring=keyring)) as target:
        with RawNbd(nbd(target, "disk").socket) as client:
            assert client.command(WRITE, 0, 4 * KIB, b"1" * 4 * KIB)[0] == 0


def test_error_explains_missing_capabilities_for_the_data_pool(ceph, tmp_path, nbd):
    ceph.create_pool("data")
    image = ceph.create_image("8M", "--data-pool", "data")
    none = ceph.user("none", "mon", "profile rbd", "osd", "profile rbd pool=rbd")
    assert "may not use the data pool" in refusal(ceph, tmp_path, ceph.backend(image, id="none", keyring=none))
    half = ceph.user("half", "mon", "profile rbd", "osd", "profile rbd pool=rbd, profile rbd-read-only pool=data")
    with start_target(ceph, tmp_path, ceph.backend(image, id="half", keyring=half)) as target:
        with RawNbd(nbd(target, "disk").socket) as client:
            assert client.command(WRITE, 0, 4 * KIB, b"1" * 4 * KIB)[0] == EIO
            assert client.command(READ, 0, 4 * KIB) == (0, bytes(4 * KIB))
            assert volume(target)["trouble"] == "Ceph does not permit requests of client.half"


def test_error_names_a_live_owner_and_steal_blocklists_a_paused_one(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path / "a", ceph.backend(image)) as first:
        with RawNbd(nbd(first, "disk").socket) as client:
            assert client.command(WRITE, 0, 4 * KIB, b"1" * 4 * KIB)[0] == 0
            said = refusal(ceph, tmp_path / "b", ceph.backend(image))
            assert "the client at 127.0.0.1:0/" in said and "steal=true" in said
            pause(first.process)
            with start_target(ceph, tmp_path / "c", ceph.backend(image, steal="true")) as second:
                with RawNbd(nbd(second, "disk").socket) as other:
                    assert other.command(WRITE, 0, 4 * KIB, b"2" * 4 * KIB)[0] == 0
                    first.process.send_signal(signal.SIGCONT)
                    # The error may differ once the volume rejects all requests.
                    assert client.command(WRITE, 0, 4 * KIB, b"3" * 4 * KIB)[0] != 0
                    assert client.command(READ, 0, 4 * KIB)[0] != 0, "no stale data is returned either"
                    assert "blocklisted" in volume(first)["trouble"]
                    assert other.command(READ, 0, 4 * KIB) == (0, b"2" * 4 * KIB)
            # The blocklisted target opens the image again, as a new client, when the image has no owner.
            ask(first.control, "volume.delete", name="disk")
            ask(first.control, "volume.create", name="again", backend=ceph.backend(image))
            with RawNbd(nbd(first, "again").socket) as client2:
                assert client2.command(READ, 0, 4 * KIB) == (0, b"2" * 4 * KIB)


def test_restarted_osd_loses_no_data(ceph, tmp_path, nbd):
    image = ceph.create_image("32M")
    with start_target(ceph, tmp_path, ceph.backend(image, osd_timeout=60)) as target:
        uri = nbd(target, "disk").uri
        command = ["fio", "--ioengine=nbd", f"--uri={uri}", "--name=v", "--rw=randrw", "--bs=4k-64k", "--iodepth=8", "--size=32M",
                   "--verify=crc32c", "--verify_state_save=0", "--time_based", "--runtime=15"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as load:
            time.sleep(2)
            ceph.kill_osd(1)
            time.sleep(5)
            ceph.start_osd(1)
            output, _ = load.communicate(timeout=180)
        assert load.returncode == 0, output
        ceph.wait_for_osds(3)
        fio(uri, {"rw": "randwrite", "bs": "16k", "size": "8M", "verify": "crc32c"})
