# SPDX-License-Identifier: Apache-2.0
"""Tests the driver's guarantees for /dev/wss0, with the WSS target in the same machine."""

import pytest

SESSION = "/sys/class/wss/session0"


@pytest.fixture
def disk(vm):
    """/dev/wss0, a RAM volume. After the test the driver is unloaded and the target stopped."""
    target = vm.start("wss-target --listen rdma://$LAB_ADDRESS:5555 --volume d=ram:64M --control '' --reactors 1")
    target.wait_for("ready")
    vm.run("insmod $BUILD/kernel/wss.ko target=$LAB_ADDRESS:5555 volume=d", timeout=60)
    yield "/dev/wss0"
    vm.run("test ! -d /sys/module/wss || rmmod wss", timeout=60)
    target.stop()


def counter(vm, name: str) -> int:
    return int(vm.run(f"cat {SESSION}/stats/{name}").stdout)


@pytest.mark.parametrize("kib", [4, 64, 1024])
def test_read_of_any_size_registers_one_region(vm, disk, kib):
    registered, requests = counter(vm, "regions_registered"), counter(vm, "requests")
    vm.run(f"dd if={disk} of=/dev/null bs={kib}k count=8 iflag=direct", timeout=60)
    assert counter(vm, "requests") - requests == 8
    assert counter(vm, "regions_registered") - registered == 8
    assert counter(vm, "regions_active") == 0
    assert counter(vm, "dma_mapped") == 0


def test_small_write_is_sent_as_immediate_data_and_registers_nothing(vm, disk):
    registered, immediate = counter(vm, "regions_registered"), counter(vm, "immediate_writes")
    vm.run(f"dd if=/dev/zero of={disk} bs=16k count=8 oflag=direct", timeout=60)
    assert counter(vm, "immediate_writes") - immediate == 8
    assert counter(vm, "regions_registered") == registered


def test_driver_refuses_to_unmap_or_unload_an_open_disk_unless_forced(vm, disk):
    refused = vm.run(f"exec 7<{disk}; echo wss0 > /sys/class/wss/unmap; rmmod wss; cat /sys/class/wss/last_error; "
                     "echo 'wss0 force' > /sys/class/wss/unmap && echo forced", check=False, timeout=60)
    assert "is in use" in refused.stdout
    assert "forced" in refused.stdout
    assert not vm.run("ls /dev/wss0", check=False).stdout


def test_map_error_for_an_unknown_volume_lists_the_existing_names(vm, disk):
    vm.run("echo target=$LAB_ADDRESS:5555 volume=nix > /sys/class/wss/map", check=False, timeout=60)
    error = vm.run("cat /sys/class/wss/last_error").stdout
    assert "unknown volume 'nix'" in error
    assert "the target has: d" in error
