# SPDX-License-Identifier: Apache-2.0
"""States of a machine's kernel that a part needs. Each is a shell process that creates the state, prints "ready", waits, and restores
the former state on SIGTERM. So the agent restores it even if the kit is killed."""

from __future__ import annotations

import json
import shlex
from contextlib import contextmanager
from typing import Iterator

from tests.hardware.kit import Failed, Kit, NotRun, is_rxe, port_with
from tests.hardware.machine import Machine
from tests.lab.errors import tail
from tests.lab.guest import Process

SET_UP_LIMIT = 120.0
UNDO_LIMIT = 120.0
FRAME = """
undo() {{
    trap '' TERM INT HUP
    set +e
    {undo}
}}
trap undo EXIT
trap 'exit 0' TERM INT HUP
set -e
{set_up}
sleep 86400 &
wait $!
"""


@contextmanager
def held(machine: Machine, set_up: str, undo: str) -> Iterator[Process]:
    """Holds the state during the block. The block must have released the state before its end."""
    process = machine.start(["sh", "-c", FRAME.format(set_up=set_up, undo=undo)])
    try:
        process.wait_for(r"^ready", SET_UP_LIMIT)
        yield process
    except BaseException:
        if machine.running:
            process.stop(UNDO_LIMIT)
        raise
    before = len(process.stderr)
    complaints = process.stop(UNDO_LIMIT).stderr[before:].strip()
    if complaints:
        raise Failed(f"{machine.name}: a state could not be restored completely:\n{tail(complaints)}")


def need_modules(machine: Machine, *names: str) -> None:
    missing = [name for name in names if not machine.facts["modules"][name]]
    if missing:
        raise NotRun(f"the kernel of {machine.name} has no module {', '.join(missing)}")


# ---- the driver

SAME_MACHINE = "ack_timeout=8796093 keepalive_tmo=off"  # for rxe (tests/system/block_setup.py)


def need_driver(kit: Kit) -> str:
    """Returns the path of wss.ko on the client."""
    machine = kit.client
    kit.need_root(machine, "loading the driver")
    if machine.facts["loaded"]["wss"]:
        raise NotRun(f"wss.ko is loaded on {machine.name}: unload it, so that the tested one can be loaded")
    module = kit.build / "kernel/wss.ko"
    if not module.exists():
        raise NotRun("wss.ko was not built: make modules")
    path = str(module)
    if machine.is_remote:
        path = f"{machine.directory}/wss.ko"
        machine.run(["dd", f"of={path}", "bs=64k", "iflag=fullblock", "status=none"], stdin=module.read_bytes())
    built_for = machine.run(["modinfo", "-F", "vermagic", path]).stdout.split()[0]
    if built_for != machine.facts["kernel"]:
        raise NotRun(f"wss.ko was built for Linux {built_for}, and {machine.name} runs {machine.facts['kernel']}: make modules KDIR=/usr/src/linux-headers-…")
    return path


@contextmanager
def driver(kit: Kit, target: str, volume: str) -> Iterator[str]:
    """Loads wss.ko on the client and maps the volume. Yields the block device."""
    machine = kit.client
    module = need_driver(kit)
    with held(machine, f"modprobe -a rdma_cm ib_core; insmod {shlex.quote(module)}; echo ready", "wssctl unmap --all --force >/dev/null; rmmod wss"):
        options = SAME_MACHINE.split() if kit.options.local and is_rxe(port_with(machine, kit.client_address)[0]) else []
        mapped = machine.run(["wssctl", "--json", "map", target, volume, *options], 120)
        yield json.loads(mapped.stdout)["device"]


# ---- RAM disk and NVMe over RDMA

RAM_DISK = "/dev/ram0"
NQN = "wss-hardware-kit"
NVME_PORT = "4421"
CONFIGFS = "/sys/kernel/config/nvmet"


@contextmanager
def ram_disk(kit: Kit, mib: int) -> Iterator[str]:
    """Creates the kernel's RAM disk on the target."""
    machine = kit.target
    kit.need_root(machine, "creating a RAM disk")
    need_modules(machine, "brd")
    if machine.facts["loaded"]["brd"]:
        raise NotRun(f"the module brd is loaded on {machine.name}: unload it, so that the kit can create a RAM disk of its own")
    with held(machine, f"modprobe brd rd_nr=1 rd_size={mib * 1024} max_part=0; echo ready", "rmmod brd"):
        machine.run(["dd", "if=/dev/zero", f"of={RAM_DISK}", "bs=1M", f"count={mib}", "oflag=direct", "status=none"], 300)
        yield RAM_DISK


def export(address: str, device: str) -> str:
    family = "ipv6" if address.startswith("[") else "ipv4"
    return f"""
modprobe nvmet-rdma
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
cd {CONFIGFS}
port=$(($(ls ports | sort -n | tail -1) + 1))
mkdir subsystems/{NQN}; echo 1 >subsystems/{NQN}/attr_allow_any_host
mkdir subsystems/{NQN}/namespaces/1; echo {device} >subsystems/{NQN}/namespaces/1/device_path; echo 1 >subsystems/{NQN}/namespaces/1/enable
mkdir ports/$port; echo rdma >ports/$port/addr_trtype; echo {family} >ports/$port/addr_adrfam
echo {address.strip('[]')} >ports/$port/addr_traddr; echo {NVME_PORT} >ports/$port/addr_trsvcid
ln -s $PWD/subsystems/{NQN} ports/$port/subsystems/{NQN}
echo ready"""


WITHDRAW = f"""
cd {CONFIGFS} || return
[ -z "$port" ] || rm -f ports/$port/subsystems/{NQN}
[ -z "$port" ] || rmdir ports/$port
echo 0 >subsystems/{NQN}/namespaces/1/enable; rmdir subsystems/{NQN}/namespaces/1 subsystems/{NQN}"""

# Prints the block device of the subsystem. With multipath, its name in the controller's directory is nvme0c0n1 instead of nvme0n1.
FIND = f"""
for try in $(seq 100); do
    for controller in /sys/class/nvme/*; do
        [ "$(cat $controller/subsysnqn)" = {NQN} ] || continue
        for name in $(ls $controller | grep '^nvme.*n[0-9]' | sed 's/c[0-9]*n/n/'); do
            if [ -b /dev/$name ]; then echo "ready /dev/$name"; break 3; fi
        done
    done
    sleep 0.1
done"""


@contextmanager
def nvme_over_rdma(kit: Kit, device: str) -> Iterator[str]:
    """Exports a block device of the target by NVMe over RDMA and connects the client to it. Yields the client's block device."""
    kit.need_root(kit.target, "exporting a disk by NVMe over RDMA")
    kit.need_root(kit.client, "connecting a disk by NVMe over RDMA")
    need_modules(kit.target, "nvmet_rdma")
    need_modules(kit.client, "nvme_rdma")
    kit.need_tools(kit.client, nvme="nvme-cli")
    connect = f"modprobe nvme-rdma; nvme connect -t rdma -a {kit.target_address.strip('[]')} -s {NVME_PORT} -n {NQN} >/dev/null\n{FIND}"
    with held(kit.target, export(kit.target_address, device), WITHDRAW):
        with held(kit.client, connect, f"nvme disconnect -n {NQN} >/dev/null") as process:
            found = process.wait_for(r"^ready (\S+)")
            yield found[1]
