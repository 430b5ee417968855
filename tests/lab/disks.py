# SPDX-License-Identifier: Apache-2.0
"""Emulated NVMe disks: sparse files on the host that survive power cuts of their machine.

Data that a guest has written is in the host's page cache and therefore survives the death of QEMU. QEMU does
not forward flushes to the host's disk, because these tests do not cover a crash of the host.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class Disk:
    path: Path
    size: int
    serial: str

    def create(self) -> None:
        """Creates the file unless it exists, so that a machine that boots again finds its data."""
        with open(self.path, "ab") as file:
            os.truncate(file.fileno(), self.size)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def qemu_arguments(self) -> list[str]:
        name = f"disk-{self.serial}"
        return [
            "-drive",
            f"file={self.path},if=none,id={name},format=raw,cache=unsafe,discard=unmap",
            "-device",
            f"nvme,drive={name},serial={self.serial}",
        ]


def parse_size(text: str) -> int:
    """Converts "4096", "64M", "1G" and so on to a number of bytes."""
    match = re.fullmatch(r"(\d+)([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise ValueError(f"'{text}' is not a size; examples: 512M, 2G")
    size = int(match[1]) * UNITS[match[2].upper()]
    if size == 0 or size % 4096:
        raise ValueError(f"'{text}' is not a positive multiple of 4096 bytes")
    return size
