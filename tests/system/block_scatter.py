# SPDX-License-Identifier: Apache-2.0
"""Runs in the machine: performs direct reads and writes of memory in many segments, each with one system
call.

    block_scatter.py DEVICE CONTROL SHAPE...     SHAPE: read|write:pages|segments|ragged:COUNT

`pages` are COUNT pages of 4 KiB, chosen at random from a larger pool. `segments` are COUNT segments of 512
bytes that fill such pages one after another. `ragged` begins with the last 512 bytes of a page and ends with
the first 512 bytes of another, with COUNT whole pages in between. Every byte is checked: data that is read
was written from a single segment before, and data that is written is read into a single segment afterwards.
For each shape, the program prints a line of JSON with the changes of the driver's counters and of the
target's counters. It gets the latter from the control socket CONTROL.
"""

from __future__ import annotations

import http.client
import json
import mmap
import os
import random
import socket
import sys
from pathlib import Path

PAGE = 4096
SECTOR = 512
STATS = Path("/sys/class/wss/session0/stats")


class Pool:
    """Anonymous memory. Its pages are touched in random order, so that they are physically scattered."""

    def __init__(self, pages: int, chance: random.Random) -> None:
        self._memory = mmap.mmap(-1, pages * PAGE)
        self._pages = pages
        self._chance = chance
        order = list(range(pages))
        chance.shuffle(order)
        for page in order:
            self._memory[page * PAGE] = 0

    def pages(self, count: int) -> list[int]:
        """Returns the offsets of pages, no two of which are adjacent."""
        evens = self._chance.sample(range(self._pages // 2), count)
        return [even * 2 * PAGE for even in evens]

    def view(self, offset: int, length: int) -> memoryview:
        return memoryview(self._memory)[offset : offset + length]


def segments_of(pool: Pool, shape: str, count: int) -> list[memoryview]:
    if shape == "pages":
        return [pool.view(page, PAGE) for page in pool.pages(count)]
    if shape == "segments":
        pages = pool.pages(-(-count * SECTOR // PAGE))
        return [pool.view(pages[i * SECTOR // PAGE] + i * SECTOR % PAGE, SECTOR) for i in range(count)]
    if shape == "ragged":
        first, *middle, last = pool.pages(count + 2)
        whole = [pool.view(page, PAGE) for page in middle]
        return [pool.view(first + PAGE - SECTOR, SECTOR), *whole, pool.view(last, SECTOR)]
    raise SystemExit(f"shape {shape}?")


def driver_counters() -> dict[str, int]:
    return {path.name: int(path.read_text()) for path in STATS.iterdir()}


class TargetCounters:
    """Sends requests to the control socket, as wssctl does, over one connection."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(30)
        self._socket.connect(path)

    def __call__(self) -> dict[str, int]:
        self._socket.sendall(b"GET /api/v1/stats HTTP/1.1\r\n\r\n")
        response = http.client.HTTPResponse(self._socket)
        response.begin()
        return json.load(response)["block"]


def moved(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


class Disk:
    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        self._plain = mmap.mmap(-1, 2 << 20)

    def write_plain(self, data: bytes, offset: int) -> None:
        self._plain[: len(data)] = data
        assert os.pwrite(self._fd, memoryview(self._plain)[: len(data)], offset) == len(data)

    def read_plain(self, length: int, offset: int) -> bytes:
        assert os.preadv(self._fd, [memoryview(self._plain)[:length]], offset) == length
        return self._plain[:length]

    def write(self, segments: list[memoryview], offset: int) -> int:
        return os.pwritev(self._fd, segments, offset)

    def read(self, segments: list[memoryview], offset: int) -> int:
        return os.preadv(self._fd, segments, offset)


def run_shape(disk: Disk, pool: Pool, target_counters: TargetCounters, words: list[str], chance: random.Random) -> dict:
    way, shape, count = words[0], words[1], int(words[2])
    segments = segments_of(pool, shape, count)
    length = sum(len(segment) for segment in segments)
    data = chance.randbytes(length)
    # The block layer splits the largest requests at physical blocks, so 256 pages fit in one request only if
    # they are aligned.
    offset = chance.randrange(4096) * (PAGE if shape == "pages" else SECTOR) % (12 << 20)
    guard = chance.randbytes(PAGE)
    disk.write_plain(guard, offset + length)  # data beyond the range must stay unchanged
    if way == "read":
        disk.write_plain(data, offset)
    else:
        at = 0
        for segment in segments:
            segment[:] = data[at : at + len(segment)]
            at += len(segment)
    driver, target = driver_counters(), target_counters()
    done = (disk.read if way == "read" else disk.write)(segments, offset)
    result = {"shape": ":".join(words), "driver": moved(driver_counters(), driver), "target": moved(target_counters(), target)}
    assert done == length, f"{result['shape']}: {done} of {length} bytes"
    seen = b"".join(segments) if way == "read" else disk.read_plain(length, offset)
    assert seen == data, f"{result['shape']}: data differs from what was written, first at {first_difference(seen, data)}"
    assert disk.read_plain(PAGE, offset + length) == guard, f"{result['shape']}: bytes beyond the request changed"
    return result


def first_difference(left: bytes, right: bytes) -> int:
    return next(i for i in range(len(left)) if left[i] != right[i])


def main() -> None:
    device, control, *shapes = sys.argv[1:]
    chance = random.Random(20261121)
    pool = Pool(2048, chance)
    disk = Disk(device)
    counters = TargetCounters(control)
    for shape in shapes:
        print(json.dumps(run_shape(disk, pool, counters, shape.split(":"), chance)), flush=True)


if __name__ == "__main__":
    main()
