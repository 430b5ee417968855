# SPDX-License-Identifier: Apache-2.0
"""Determines which acceleration works by booting a kernel, because a boot may hang for ever although /dev/kvm
exists.

The result is kept in BUILD/lab until the host kernel, the host boot, the existence of /dev/kvm, QEMU or the
guest kernel changes.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.lab import paths
from tests.lab.bootimage import boot_image
from tests.lab.errors import LabError
from tests.lab.initramfs import initramfs_for
from tests.lab.kernel import Kernel
from tests.lab.leash import leashed

LIMIT = 10.0  # seconds within which KVM must boot a kernel to its first process; a working KVM needs 1 to 2
KILL_LIMIT = 2.0
DEVICE = Path("/dev/kvm")
MARKER = b"lab-probe-ok"


@dataclass(frozen=True)
class Answer:
    accelerator: str  # "kvm" or "tcg"
    reason: str


def accelerator_for(kernel: Kernel, *, again: bool = False) -> Answer:
    """Returns the stored result, or probes if there is none. WSS_LAB_ACCEL=kvm|tcg overrides both."""
    forced = os.environ.get("WSS_LAB_ACCEL")
    if forced:
        if forced not in ("kvm", "tcg"):
            raise LabError(f"WSS_LAB_ACCEL={forced}: use kvm or tcg")
        return Answer(forced, "set by WSS_LAB_ACCEL")
    memory = paths.lab_directory() / "accelerator.json"
    circumstances = _circumstances(kernel)
    if not again and (known := _remembered(memory, circumstances)):
        return known
    answer = probe(kernel)
    fresh = memory.with_suffix(f".{os.getpid()}")
    record = {"circumstances": circumstances, "accelerator": answer.accelerator, "reason": answer.reason}
    fresh.write_text(json.dumps(record, indent=2))
    fresh.rename(memory)
    return answer


def probe(kernel: Kernel) -> Answer:
    """Tries KVM with a time limit. Emulation (TCG) always works."""
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return Answer("tcg", f"{DEVICE} does not exist or cannot be opened")
    append = "console=ttyS0 quiet panic=-1 lab.probe"
    command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    command += ["-accel", "kvm", "-cpu", "host", "-smp", "2", "-m", "256", "-serial", "stdio"]
    command += ["-kernel", str(boot_image(kernel)), "-initrd", str(initramfs_for(kernel)), "-append", append]
    started = time.monotonic()
    output = _output_within(leashed(command), LIMIT)
    if output is None:
        return Answer("tcg", f"{DEVICE} exists, but a kernel does not boot with it within {LIMIT:.0f} s")
    if MARKER in output:
        return Answer("kvm", f"a kernel booted in {time.monotonic() - started:.1f} s")
    said = output.decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
    return Answer("tcg", f"{DEVICE} exists, but QEMU exited without booting: {said[0]}")


def _output_within(command: list[str], limit: float) -> bytes | None:
    """Returns the output of the command, or None if it does not exit in time. Every wait has a limit, because
    a hung KVM may leave a process that cannot be killed."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        return process.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        process.kill()
    try:
        process.wait(KILL_LIMIT)
    except subprocess.TimeoutExpired:
        pass  # the process hangs in the kernel and cannot be killed
    return None


def _remembered(memory: Path, circumstances: str) -> Answer | None:
    try:
        known = json.loads(memory.read_text())
        if known["circumstances"] == circumstances:
            return Answer(known["accelerator"], known["reason"] + " (stored result)")
    except (OSError, ValueError, KeyError, TypeError):
        pass  # there is no valid stored result, so probe
    return None


def _circumstances(kernel: Kernel) -> str:
    version = subprocess.run(
        ["qemu-system-x86_64", "--version"], capture_output=True, text=True, timeout=20, check=True
    ).stdout.splitlines()[0]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{os.uname().release} {boot} {DEVICE.exists()} | {version} | {kernel.release}"
