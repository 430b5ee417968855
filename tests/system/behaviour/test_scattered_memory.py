# SPDX-License-Identifier: Apache-2.0
"""Buffers with gaps between their segments: every byte is in its place."""

from tests.system.behaviour.rig import Rig

SCRIPT = r"""
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
memory = mmap.mmap(-1, 1 << 20)
view = memoryview(memory)
for piece, gap, count in ((512, 512, 16), (1024, 3072, 32), (4096, 4096, 32), (512, 7680, 64), (3584, 512, 40)):
    pieces = [view[i * (piece + gap):i * (piece + gap) + piece] for i in range(count)]
    for number, part in enumerate(pieces):
        part[:] = bytes([(number * 7 + piece) % 251 + 1]) * piece
    wanted = b"".join(bytes(part) for part in pieces)
    assert os.pwritev(fd, pieces, 0) == piece * count
    memory[:] = bytes(len(memory))
    assert os.preadv(fd, pieces, 0) == piece * count
    assert b"".join(bytes(part) for part in pieces) == wanted, (piece, gap)
    for i in range(count - 1):
        hole = view[i * (piece + gap) + piece:(i + 1) * (piece + gap)]
        assert not any(hole), "written between the pieces"
"""


def test_scattered_memory(rig: Rig) -> None:
    device = rig.map("a")
    rig.vm.write("/tmp/scattered.py", SCRIPT)
    rig.vm.run(f"python3 -B /tmp/scattered.py {device} && rm /tmp/scattered.py")
    counters = rig.counters()
    assert counters["regions_registered"] + counters["immediate_writes"] >= counters["requests"] * 0.9, counters
    rig.assert_no_error()
