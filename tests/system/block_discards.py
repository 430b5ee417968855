# SPDX-License-Identifier: Apache-2.0
"""Runs in the machine: discards sectors while writes are in flight.

    block_discards.py DEVICE

The first 16 MiB are divided into extents of 256 KiB. One thread repeatedly writes to the even extents,
another discards ranges of sectors in the odd ones. At the end every even extent must hold the data written
last. Every sector of the odd extents must hold zeroes if it was discarded, and otherwise its original
content."""

from __future__ import annotations

import fcntl
import mmap
import os
import random
import struct
import sys
import threading

SECTOR = 512
EXTENT = 256 << 10
EXTENTS = 64
WRITES = 300
DISCARDS = 400
BLKDISCARD = 0x1277
FILL = bytes(range(1, 129)) * 4  # a sector without zeroes


class Device:
    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        self._buffer = mmap.mmap(-1, EXTENT)  # each object is used by only one thread

    def write(self, offset: int, data: bytes) -> None:
        self._buffer[: len(data)] = data
        assert os.pwrite(self.fd, memoryview(self._buffer)[: len(data)], offset) == len(data)

    def read(self, offset: int) -> bytes:
        assert os.preadv(self.fd, [self._buffer], offset) == EXTENT
        return self._buffer[:]

    def discard(self, offset: int, length: int) -> None:
        fcntl.ioctl(self.fd, BLKDISCARD, struct.pack("QQ", offset, length))


def write_evens(device: Device, model: bytearray) -> None:
    chance = random.Random(1)
    for _ in range(WRITES):
        length = SECTOR * chance.choice((1, 8, 32, 128, 511))
        offset = chance.randrange(0, EXTENTS, 2) * EXTENT + chance.randrange((EXTENT - length) // SECTOR + 1) * SECTOR
        data = chance.randbytes(length)
        device.write(offset, data)
        model[offset : offset + length] = data


def discard_odds(device: Device, model: bytearray) -> None:
    chance = random.Random(2)
    for _ in range(DISCARDS):
        length = SECTOR * chance.choice((1, 7, 8, 100, 512))
        offset = chance.randrange(1, EXTENTS, 2) * EXTENT + chance.randrange((EXTENT - length) // SECTOR + 1) * SECTOR
        device.discard(offset, length)
        model[offset : offset + length] = bytes(length)


def guarded(work, failures: list[BaseException], *arguments) -> None:
    try:
        work(*arguments)
    except BaseException as error:  # noqa: BLE001  (main raises it)
        failures.append(error)


def compare(device: Device, model: bytearray) -> int:
    wrong = 0
    for extent in range(EXTENTS):
        data = device.read(extent * EXTENT)
        for at in range(0, EXTENT, SECTOR):
            want = model[extent * EXTENT + at : extent * EXTENT + at + SECTOR]
            if data[at : at + SECTOR] != want:
                wrong += 1
                print(f"sector {(extent * EXTENT + at) // SECTOR}: {data[at : at + 16].hex()}…, expected {want[:16].hex()}…")
    return wrong


def main() -> None:
    devices = [Device(sys.argv[1]) for _ in range(2)]
    model = bytearray(FILL * (EXTENT * EXTENTS // SECTOR))
    for extent in range(EXTENTS):
        devices[0].write(extent * EXTENT, FILL * (EXTENT // SECTOR))
    failures: list[BaseException] = []
    works = [threading.Thread(target=guarded, args=(work, failures, device, model))
             for work, device in zip((write_evens, discard_odds), devices)]
    for work in works:
        work.start()
    for work in works:
        work.join()
    if failures:
        raise failures[0]
    wrong = compare(devices[0], model)
    print(f"{WRITES} writes, {DISCARDS} discards, {wrong} wrong sectors")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
