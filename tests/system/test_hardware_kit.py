# SPDX-License-Identifier: Apache-2.0
"""Tests the hardware kit (`make check-hardware`) over soft RDMA: all its parts on one machine, and two
machines over ssh."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.hardware.main import PARTS
from tests.hardware.performance import LIBWSS, NETWORK, NVME, ON_RAM_DISK
from tests.lab.guest import wait_until
from tests.lab.lab import Lab
from tests.lab.vm import Shape, Vm

OUT = "/run/hardware"
# The lab's root is an overlay, where wss-target cannot resize files ("Invalid argument"). So files of volumes
# are in /run.
ON_RUN = "--directory /run"
KIT = f"tests/hardware/check --quick --build $BUILD --out {OUT} {ON_RUN}"
LIMIT = 1800
SLOW = {"WSS_LAB_SLOWNESS": "3"}  # the kit's limits are for machines with RDMA cards


def report_of(vm: Vm) -> dict:
    report = json.loads(vm.run(f"tar -xzOf {OUT}/report-*.tar.gz --wildcards '*/report.json'").stdout)
    return {**report, "states": {part["name"]: (part["state"], part["text"]) for part in report["parts"]}}


@pytest.fixture
def clean(vm: Vm) -> Iterator[Vm]:
    yield vm
    vm.run(f"rm -rf {OUT}")


def test_hardware_kit_passes_all_its_parts_over_soft_rdma(clean: Vm, lab_say) -> None:
    result = clean.run(f"{KIT} --local --target {clean.address} --driver --faults", LIMIT, check=False, env=SLOW)
    report = report_of(clean)
    lab_say(f"hardware kit: {report['seconds']} s, " + ", ".join(f"{part['name']} {part['seconds']:.0f}" for part in report["parts"]))
    assert result.status == 0 and {state for state, _ in report["states"].values()} == {"ok"}, result.stdout
    assert len(report["parts"]) == len(PARTS)
    [device] = report["machines"][0]["devices"]
    assert device["device"] == "rxe0" and device["ports"][0]["state"] == "4: ACTIVE" and device["ports"][0]["gids"]
    assert {measure["system"] for measure in report["measures"]} >= {NETWORK, LIBWSS, ON_RAM_DISK, NVME}
    assert {(row["system"], row["base"]) for row in report["ratios"]} >= {(LIBWSS, NETWORK), (ON_RAM_DISK, NVME)}
    clean.run("test ! -e /sys/module/wss -a ! -e /dev/ram0 -a ! -e /sys/kernel/config/nvmet/subsystems/wss-hardware-kit")
    assert clean.run("ls /run | grep wss-hardware; pgrep -f 'wss-target|nbdkit|kvctl'", check=False).stdout == ""


WSSCTL = """#!/bin/sh
[ "$1" = --version ] || echo '<4>WARNING: made by the test of the hardware kit' >/dev/kmsg
exec $BUILD/wssctl "$@"
"""


def test_hardware_kit_reports_parts_that_fail_over_rdma(clean: Vm) -> None:
    clean.klog.allow("WARNING: made by the test of the hardware kit", "the test makes it")
    clean.run(f"mkdir -p {OUT}/build && ln -s $BUILD/* {OUT}/build && ln -sf /bin/false {OUT}/build/wss-cache && rm {OUT}/build/wssctl")
    clean.write(f"{OUT}/build/wssctl", WSSCTL.replace("$BUILD", clean.environment["BUILD"]))
    clean.run(f"chmod 755 {OUT}/build/wssctl")
    only = "--only doctor io-cache io-ram fault-peer"
    result = clean.run(f"tests/hardware/check --quick --build {OUT}/build --out {OUT} {ON_RUN} --local --target {clean.address} {only}", LIMIT, check=False, env=SLOW)
    states = report_of(clean)["states"]
    assert result.status == 1, result.stdout
    assert states["programs"][0] == states["io-cache"][0] == "failed" and "wss-cache" in states["io-cache"][1], states
    assert states["doctor"][0] == "failed" and "WARNING: made by the test" in states["doctor"][1], "a complaint of the kernel makes a part fail"
    assert states["io-ram"][0] == states["fault-peer"][0] == "ok", states


def test_hardware_kit_reports_a_machine_without_rdma(make_lab) -> None:
    vm = make_lab(shape=Shape(rdma=False)).vms[0]
    result = vm.run(f"{KIT} --local --target 127.0.0.1", LIMIT, check=False, env=SLOW)
    states = report_of(vm)["states"]
    assert states.pop("identify")[0] == "failed" and states.pop("programs")[0] == "ok" and result.status == 1, states
    assert {state for state, _ in states.values()} == {"not run"}, states
    assert sum("no RDMA device" in text for _, text in states.values()) >= len(states) - 1, states


SSH_SERVER = "dropbear -F -E -s -p 22 -r /run/ssh/host"


@pytest.fixture
def reached_by_ssh(make_lab) -> Lab:
    """Two machines. The second has an ssh server, which lets root of the first log in."""
    lab = make_lab(2, Shape(cpus=2, memory_mib=1536))
    client, target = lab.vms
    client.run("mkdir -p -m 700 /root/.ssh && rm -f /root/.ssh/kit && ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/kit && cp /root/.ssh/kit.pub $LAB_SHARE")
    client.run("printf 'Host *\\nIdentityFile /root/.ssh/kit\\nStrictHostKeyChecking no\\nUserKnownHostsFile /dev/null\\n' >/root/.ssh/config && chmod 600 /root/.ssh/config")
    target.run("mkdir -p -m 700 /root/.ssh /run/ssh && dropbearkey -t ed25519 -f /run/ssh/host && cp $LAB_SHARE/kit.pub /root/.ssh/authorized_keys && chmod 600 /root/.ssh/authorized_keys")
    server = target.start(SSH_SERVER)
    wait_until(lambda: client.run(f"ssh -o BatchMode=yes root@{target.address} true", 60, check=False).ok, "the machine accepts ssh", 120, 1)
    assert server.running
    return lab


def test_hardware_kit_tests_two_machines_over_ssh(reached_by_ssh: Lab, lab_say) -> None:
    client, target = reached_by_ssh.vms
    only = "--only doctor io-ram fault-target fault-peer perf-network perf-libwss"
    result = client.run(f"{KIT} --target root@{target.address} {only}", LIMIT, check=False, env=SLOW)
    report = report_of(client)
    lab_say(f"hardware kit over ssh: {report['seconds']} s, " + ", ".join(f"{part['name']} {part['seconds']:.0f}" for part in report["parts"]))
    assert result.status == 0 and len([state for state, _ in report["states"].values() if state == "ok"]) == 8, result.stdout
    assert [machine["address"] for machine in report["machines"]] == [target.address, client.address]
    assert target.run("ls /run | grep wss-hardware; pgrep wss-target", check=False).stdout == "", "nothing may remain on the other machine"


def test_killed_hardware_kit_leaves_nothing_on_the_other_machine(reached_by_ssh: Lab) -> None:
    client, target = reached_by_ssh.vms
    kit = client.start(f"exec {KIT} --target root@{target.address} --only perf-libwss", env=SLOW)
    wait_until(lambda: not kit.running or target.run("pgrep wss-target", check=False).ok, "the target runs", 300, 1)
    assert kit.running, kit.stdout
    kit.kill()
    wait_until(lambda: not target.run("ls /run | grep wss-hardware; pgrep wss-target", check=False).stdout, "nothing of the kit remains", 120, 1)
