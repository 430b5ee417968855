# SPDX-License-Identifier: Apache-2.0
"""What the machines and their devices are, and whether the programs run on them."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

from tests.hardware.kit import CONFORMANCE, Failed, Kit
from tests.hardware.machine import Machine
from tests.hardware.part import Part
from tests.hardware.programs import Target
from tests.lab.errors import tail

# The programs, and an option with which each only shows that it starts.
PROGRAMS = {"wss-target": "--version", "wss-cache": "--version", "wssctl": "--version", "kvctl": "--version", "wssbench": "--version",
            CONFORMANCE: "--gtest_list_tests"}
PLUGIN = "nbdkit-wss-plugin.so"  # nbdkit loads it
SHOWN = (("ibv_devinfo", "-v"), ("rdma", "link"), ("rdma", "resource"), ("ip", "-s", "link"), ("uname", "-a"))
COPY_LIMIT = 300


def summary(machine: Machine) -> list[str]:
    """Returns a line about the machine and one about each of its RDMA ports."""
    facts = machine.facts
    lock = "no limit of locked memory" if facts["may_lock"] else f"locked memory {facts['memlock'][0]} bytes"
    lines = [f"{machine.name}: {facts['system']}, Linux {facts['kernel']}, {facts['processors']} × {facts['processor']}, {facts['numa_nodes']} NUMA nodes, "
             f"{facts['memory_available_mib']} MiB available, {'root' if machine.is_root else 'not root'}, {lock}"]  # fmt: skip
    for device in facts["devices"]:
        for port in device["ports"]:
            lines.append(f"{machine.name}: {device['device']} port {port['port']}: {line_of(device, port)}")
    return lines


def line_of(device: dict, port: dict) -> str:
    netdevs = "; ".join(f"{one['name']} mtu {one['mtu']} {' '.join(one['addresses'])}" for one in port["netdevs"])
    words = (f"driver {device['driver'] or 'software'}", f"type {device['hca_type'] or '-'}", f"firmware {device['fw_ver'] or '-'}", f"board {device['board_id'] or '-'}",
             f"{port['link_layer']} {port['state']} {port['rate']}", f"PCI {device['pci'] or '-'} NUMA {device['numa_node'] or '-'}",
             f"{len(port['gids'])} GIDs", netdevs or "no network device")  # fmt: skip
    return ", ".join(words)


def show(machine: Machine, words: tuple[str, ...], kit: Kit) -> None:
    """Runs a command for its log. A missing tool is a note."""
    if machine.run(list(words), 60, check=False).status == 127:
        kit.note(f"{machine.name}: `{' '.join(words)}` did not run: {words[0]} is not installed")


def identify(kit: Kit) -> str:
    """Records devices, ports, link layers, firmware, drivers, GIDs, MTUs, PCI locations, NUMA nodes, kernels and limits of locked memory of
    each machine (ibv_devinfo -v, rdma link, ethtool -i, sysfs)."""
    for machine in kit.machines:
        kit.notes += summary(machine)
        if not machine.facts["reads_kernel_log"]:
            kit.note(f"{machine.name}: this user may not read the kernel log, so warnings of the kernel are not noticed")
        for words in SHOWN:
            show(machine, words, kit)
        netdevs = {netdev["name"] for device in machine.facts["devices"] for port in device["ports"] for netdev in port["netdevs"]}
        for name in sorted(netdevs):
            show(machine, ("ethtool", "-i", name), kit)
    for machine in kit.machines if kit.scheme == "rdma" else ():
        if not machine.facts["devices"]:
            raise Failed(f"{machine.name} has no RDMA device, so nothing can be tested: `rdma link` on it must list one")
        if not machine.facts["rdma_cm"]:
            raise Failed(f"{machine.name}: the RDMA connection manager is not loaded: modprobe rdma_ucm")
    kit.need_network()
    return f"data passes between {kit.target_address} (target) and {kit.client_address} (client)"


def archive(build: Path) -> bytes:
    """Returns the programs as a tar archive, without their symbols for debuggers if `strip` is installed."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
        for name in (*PROGRAMS, PLUGIN):
            if not (build / name).exists():
                continue  # programs_start() reports it
            info = tarfile.TarInfo(name)
            content = stripped(build / name)
            info.mode, info.size = 0o755, len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def stripped(program: Path) -> bytes:
    if shutil.which("strip"):
        done = subprocess.run(["strip", "--strip-debug", "-o", "/dev/stdout", str(program)], capture_output=True, timeout=60, check=False)
        if done.returncode == 0 and done.stdout:
            return done.stdout
    return program.read_bytes()


def programs_start(kit: Kit) -> str:
    """Copies the programs to the machines that ssh reaches, and starts each of them there."""
    remote = [machine for machine in kit.machines if machine.is_remote]
    packed = archive(kit.build) if remote else b""
    for machine in remote:
        machine.run(["tar", "-xzf", "-"], COPY_LIMIT, stdin=packed)
        machine.programs = machine.directory
        machine.set_environment()
    # The parts that need the conformance tests report that they were not built.
    present = {name: option for name, option in PROGRAMS.items() if name != CONFORMANCE or (kit.build / name).exists()}
    for machine in kit.machines:
        for name, option in present.items():
            started = machine.run([f"{machine.programs}/{name}", option], 60, check=False)
            if started.status != 0:
                raise Failed(f"{machine.name}: {name} does not start; both machines need the same Debian release with the packages of `make deps`:\n"
                             f"{tail(started.stdout + started.stderr)}")  # fmt: skip
    copied = f", {len(packed) >> 20} MiB copied to {', '.join(machine.name for machine in remote)}" if remote else ""
    return f"{len(present)} programs{copied}"


def doctor(kit: Kit) -> str:
    """Runs wssctl doctor on each machine, and from the client against a target."""
    kit.need_network()
    with Target(kit, {"v": "ram:16M"}) as target:
        for machine in kit.machines:
            words = ["wssctl", "doctor", *([target.uri] if machine is kit.client else []), "--wait", "20"]
            found = machine.run(words, 120, check=False)
            kit.notes += [f"{machine.name}: {line}" for line in found.stdout.splitlines()]
            if found.status != 0:
                faults = [line for line in found.stdout.splitlines() if line.startswith("failed")]
                raise Failed(f"wssctl doctor on {machine.name} found faults:\n" + "\n".join(faults or [tail(found.stderr)]))
    return "no fault"


PARTS = (
    Part("identify", "machines and devices", identify, always=True),
    Part("programs", "the programs start", programs_start, always=True),
    Part("doctor", "wssctl doctor", doctor),
)
