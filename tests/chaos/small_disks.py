# SPDX-License-Identifier: Apache-2.0
"""Small file systems in memory, which a run can fill."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

BLOCK = 4096
PIECE = 1 << 20  # bytes of the ballast that are allocated in one step


class SmallDisk:
    def __init__(self, folder: Path, name: str, kib: int):
        self.path = folder / name
        self.path.mkdir()
        self._ballast = self.path / "ballast"
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "chaos", self.path], check=True)

    def free(self) -> int:
        space = os.statvfs(self.path)
        return space.f_bavail * space.f_frsize

    def fill(self, leave: int = 0) -> bool:
        """Fills the free space except `leave` bytes. Returns whether it is filled."""
        with self._ballast.open("wb", buffering=0) as file:
            size, piece = 0, PIECE
            while piece >= BLOCK:
                if self.free() >= leave + piece and _allocate(file.fileno(), size, piece):
                    size += piece
                else:
                    piece //= 2
        return self.free() < leave + BLOCK

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", self.path], check=False)


def _allocate(file: int, offset: int, length: int) -> bool:
    try:
        os.posix_fallocate(file, offset, length)
        return True
    except OSError as failure:
        if failure.errno != errno.ENOSPC:
            raise
        return False


def unmount_below(folder: Path) -> None:
    """Unmounts everything that a killed run has left mounted."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        point = Path(line.split()[1])
        if folder in point.parents:
            subprocess.run(["umount", "--lazy", point], check=False)
