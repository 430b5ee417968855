# SPDX-License-Identifier: Apache-2.0
"""Reproduces the failures of Documentation/troubleshooting.md that need RDMA. The programs and the driver
must print the texts of that page."""

from __future__ import annotations

from tests.lab.guest import wait_until
from tests.lab.lab import Lab
from tests.lab.vm import Vm
from tests.support.troubleshooting import assert_holds
from tests.system.block_setup import RUN, Target, fio_command, loaded

FEW = "prlimit --memlock=65536 setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock --reuid=65534 --regid=65534 --clear-groups"
PLUGIN = "$BUILD/nbdkit-wss-plugin.so"


def printed(vm: Vm, command: str, seconds: float = 60) -> str:
    """Returns the output of a command that fails."""
    result = vm.run(command, seconds, check=False)
    assert result.status not in (0, 124), f"`{command}`: {result}"
    return result.stdout + result.stderr


def test_programs_without_locked_memory_advise_how_to_get_it(vm: Vm) -> None:
    vm.run(f"mkdir -p {RUN} && chmod 666 /dev/infiniband/*")
    with Target(vm, {"v": "ram:16M"}, "--auth-off") as target:
        uri = f"rdma://{target.address}"
        text = printed(vm, f"{FEW} wss-target --control '' --listen rdma://$LAB_ADDRESS:5600 --volume v=ram:16M")
        text += printed(vm, f"{FEW} wss-cache --join {uri} --memory 64M --listen rdma://$LAB_ADDRESS:5600")
        text += printed(vm, f"{FEW} nbdkit -U /tmp/memlock.sock {PLUGIN} target={uri} volume=v --run true")
        findings = printed(vm, f"{FEW} wssctl doctor {uri}")
    assert "Check that wss-target runs" not in findings, findings
    assert_holds("Not enough locked memory", text + findings)


def test_doctor_detects_a_smaller_mtu_on_the_path(pair: Lab) -> None:
    client, server = pair.vms
    with Target(server, {"v": "ram:16M"}, "--auth-off") as target, loaded(client):
        findings = client.run(f"wssctl doctor {target.address}", 60).stdout
        assert f"rdma://{target.address}: volume v: 64.0 KiB read" in findings, findings
        pair.limit_frames(1500)
        try:
            text = printed(client, f"wssctl doctor {target.address}")
            client.run(f"wssctl map {target.address} v fast_io_fail_tmo=2 dev_loss_tmo=60", 60)
            assert "Input/output error" in printed(client, "dd if=/dev/zero of=/dev/wss0 bs=64k count=4 oflag=direct")
        finally:
            pair.limit_frames(9000)
            client.run("wssctl unmap --all --force", 60)
        client.run("ip link set eth0 mtu 1500")
        try:
            text += client.run(f"wssctl doctor {target.address}", 60).stdout
        finally:
            client.run("ip link set eth0 mtu 4200")
    client.sync_klog()
    assert_holds("Different MTUs", text + client.klog.text() + target.process.stderr)


def test_driver_reconnects_after_soft_roce_has_registered_a_region_twice(vm: Vm) -> None:
    with loaded(vm) as driver, Target(vm, {"v": "ram:16M"}) as target:
        mark = vm.klog.mark()
        device = driver.map(target, "v", "ack_timeout=4 reconnect_delay=1 fast_io_fail_tmo=off")
        load = vm.start(fio_command(device, "--rw=randrw --bs=16k --iodepth=4 --time_based --runtime=120"))
        wait_until(lambda: driver.counters()["reconnects"] > 0, "a connection has been lost and established again", 110)
        load.stop()
        driver.unmap(device)
    vm.sync_klog()
    assert_holds("Reconnections with soft RoCE", vm.klog.text(mark))
