# SPDX-License-Identifier: Apache-2.0
"""The initramfs of the lab: static busybox, init.sh, and the modules that are needed to access the host's root file system.

Each distinct content is built once and kept in BUILD/lab. This file writes the archive (cpio "newc") itself,
with a header and a body for each file. So it needs neither a cpio program nor root privileges for the device
node.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from tests.lab import paths
from tests.lab.errors import LabError
from tests.lab.kernel import Kernel

# Modules for the root file system, the agent's channel and the network card. All other modules are loaded
# from the root file system.
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console", "virtio_net")
BUSYBOX = (Path("/bin/busybox"), Path("/usr/bin/busybox"))
INIT = Path(__file__).with_name("inside") / "init.sh"


def initramfs_for(kernel: Kernel) -> Path:
    """Returns the archive for this kernel. Builds it if no archive with this content exists."""
    modules = module_closure(kernel)
    contents = _contents(modules)
    digest = hashlib.sha256()
    for name, (mode, body) in contents.items():
        digest.update(f"{name} {mode} {len(body)}\n".encode() + body)
    path = paths.lab_directory() / f"initramfs-{kernel.release}-{digest.hexdigest()[:16]}.cpio"
    if not path.exists():
        fresh = path.with_suffix(f".{os.getpid()}")  # renamed when complete: parallel runs may also build it
        fresh.write_bytes(_archive(contents))
        fresh.rename(path)
    return path


def module_closure(kernel: Kernel) -> list[Path]:
    """Returns the module files in loading order, without modules built into the kernel."""
    order: dict[Path, None] = {}
    for module in MODULES:
        command = ["modprobe", "-d", str(kernel.modules_root), "-S", kernel.release, "--show-depends", module]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30)
        if answer.returncode != 0:
            raise LabError(f"kernel {kernel.release} has no module {module}: {answer.stderr.strip()}")
        for line in answer.stdout.splitlines():
            action, _, rest = line.partition(" ")
            if action == "insmod":
                order[Path(rest.split()[0])] = None
    return list(order)


def _contents(modules: list[Path]) -> dict[str, tuple[int, bytes]]:
    """Returns the mode and the body of each file, by its name in the archive."""
    contents: dict[str, tuple[int, bytes]] = {
        "dev": (0o040755, b""),
        "dev/console": (0o020600, b""),  # the standard output of the first process
        "bin": (0o040755, b""),
        "bin/busybox": (0o100755, _busybox().read_bytes()),
        "init": (0o100755, INIT.read_bytes()),
        "modules": (0o040755, b""),
        "modules/order": (0o100644, "".join(f"{path.name}\n" for path in modules).encode()),
    }
    for path in modules:
        contents[f"modules/{path.name}"] = (0o100644, path.read_bytes())
    return contents


def _busybox() -> Path:
    for path in BUSYBOX:
        if path.exists():
            if b"/lib64/ld-linux" in path.read_bytes():
                raise LabError(f"{path} is not static; install the package busybox-static")
            return path
    raise LabError("no busybox; install the package busybox-static")


def _archive(contents: dict[str, tuple[int, bytes]]) -> bytes:
    out = bytearray()
    for inode, (name, (mode, body)) in enumerate(contents.items(), start=1):
        _append(out, name, mode, body, inode)
    _append(out, "TRAILER!!!", 0, b"", 0)
    return bytes(out)


def _append(out: bytearray, name: str, mode: int, body: bytes, inode: int) -> None:
    console = (5, 1) if name == "dev/console" else (0, 0)
    fields = (inode, mode, 0, 0, 1, 0, len(body), 0, 0, *console, len(name) + 1, 0)
    out += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    out += bytes(-len(out) % 4) + body
    out += bytes(-len(out) % 4)
