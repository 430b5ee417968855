# SPDX-License-Identifier: Apache-2.0
"""With gaps between the segments of a buffer, every byte is still transferred to the right place."""

from tests.system.behaviour.rig import Rig

SCRIPT = r"""
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
memory = mmap.mmap(-1, 1 << 20)
view = memoryview(memory)
for segment, gap, count in ((512, 512, 16), (1024, 3072, 32), (4096, 4096, 32), (512, 7680, 64), (3584, 512, 40)):
    segments = [view[i * (segment + gap):i * (segment + gap) + segment] for i in range(count)]
    for number, part in enumerate(segments):
        part[:] = bytes([(number * 7 + segment) % 251 + 1]) * segment
    wanted = b"".join(bytes(part) for part in segments)
    assert os.pwritev(fd, segments, 0) == segment * count
    memory[:] = bytes(len(memory))
    assert os.preadv(fd, segments, 0) == segment * count
    assert b"".join(bytes(part) for part in segments) == wanted, (segment, gap)
    for i in range(count - 1):
        hole = view[i * (segment + gap) + segment:(i + 1) * (segment + gap)]
        assert not any(hole), "memory between the segments was overwritten"
"""


def test_data_of_scattered_buffers_is_transferred_correctly(rig: Rig) -> None:
    device = rig.map("a")
    rig.vm.write("/tmp/scattered.py", SCRIPT)
    rig.vm.run(f"python3 -B /tmp/scattered.py {device} && rm /tmp/scattered.py")
    counters = rig.counters()
    assert counters["regions_registered"] + counters["immediate_writes"] >= counters["requests"] * 0.9, counters
    rig.assert_no_error()
