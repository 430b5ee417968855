# SPDX-License-Identifier: Apache-2.0
"""Controls a library that is loaded in front of the C library of a program under test. It moves the program's
time of day, lets accesses to its disk fail or take long, and breaks its TCP connections, while the program
runs."""

from __future__ import annotations

import mmap
import re
import struct
from pathlib import Path

from tests.native.programs import build_shim, run

FIELDS = ("clock_offset_us", "device", "fail_writes", "fail_syncs", "fail_reads", "delay_us", "clock_reads", "failures", "delays",
          "lose_replies", "lost_replies")
_WORD = struct.Struct("@q")


class ShimLibrary:
    """The library, which is built once for all programs of a run."""

    def __init__(self, folder: Path, program: Path):
        folder.mkdir(exist_ok=True)
        self.folder = folder
        library = build_shim(folder, Path(__file__).with_name("shim.c").read_text())
        # The library of a sanitizer must come first.
        sanitizer = re.search(r"lib[at]san\.so\S* => (\S+)", run("ldd", program).stdout)
        self.preload = ":".join(([sanitizer[1]] if sanitizer else []) + [str(library)])


class Shim:
    """The page of one program. It survives the program's restarts."""

    def __init__(self, library: ShimLibrary, name: str):
        path = library.folder / name
        path.write_bytes(bytes(mmap.PAGESIZE))
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.prefix = ["env", f"LD_PRELOAD={library.preload}", f"WSS_CHAOS_SHIM={path}"]

    def set(self, **fields: int) -> None:
        for name, value in fields.items():
            _WORD.pack_into(self._page, FIELDS.index(name) * _WORD.size, value)

    def get(self, name: str) -> int:
        return _WORD.unpack_from(self._page, FIELDS.index(name) * _WORD.size)[0]

    def heal_disk(self) -> None:
        self.set(fail_writes=0, fail_syncs=0, fail_reads=0, delay_us=0)
