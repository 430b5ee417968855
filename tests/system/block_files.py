# SPDX-License-Identifier: Apache-2.0
"""Writes and checks files whose content shows whether they are complete. `write FOLDER FIRST` creates
numbered files until it is killed. It fsyncs each file and its folder, then prints its number. `check FOLDER
FIRST END` prints which files below END are missing or wrong."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

PER_FOLDER = 50


def content(number: int) -> bytes:
    """Returns the content of a file: 512 bytes to 32 KiB, different in each file."""
    block = hashlib.sha256(str(number).encode()).digest()
    return block * (16 + number * 37 % 1009)


def path_of(folder: Path, number: int) -> Path:
    return folder / f"d{number // PER_FOLDER}" / f"f{number}"


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def write(folder: Path, first: int) -> None:
    number = first
    while True:
        path = path_of(folder, number)
        if not path.parent.exists():
            path.parent.mkdir()
            sync_folder(folder)
        temporary = path.with_suffix(".new")
        with open(temporary, "wb") as file:
            file.write(content(number))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        sync_folder(path.parent)
        print(number, flush=True)
        number += 1


def check(folder: Path, numbers: range) -> None:
    bad = [number for number in numbers
           if not path_of(folder, number).exists() or path_of(folder, number).read_bytes() != content(number)]
    print(f"checked {len(numbers)}, missing or wrong: {bad}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        check(Path(sys.argv[2]), range(int(sys.argv[3]), int(sys.argv[4])))
