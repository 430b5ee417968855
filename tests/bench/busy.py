# SPDX-License-Identifier: Apache-2.0
"""The busy time of lab machines that count instructions (Shape.icount), at 2 ns per instruction.

A machine is busy when it is neither idle nor waiting for a disk, according to the kernel's idle accounting (/proc/timer_list).
Interrupts and soft interrupts of an idle machine count as busy. The packets of soft RDMA are counted as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Sequence

from tests.lab.vm import Vm

NS_PER_INSTRUCTION = 2
RDMA = "/sys/class/infiniband/rxe0/ports/1/hw_counters"
SNAPSHOT = f"grep -E '^now at|(idle|iowait)_sleeptime' /proc/timer_list; grep -H . {RDMA}/*"
# mov ecx, LOOPS; dec ecx; jnz back; ret
LOOPS = 100_000_000
LOOP = f"""
import ctypes, mmap, struct
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\\xb9" + struct.pack("<I", {LOOPS}) + b"\\xff\\xc9\\x75\\xfc\\xc3")
run = ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
snapshot = lambda: print(*(line for line in open("/proc/timer_list") if line.startswith("now at") or "sleeptime" in line), sep="")
snapshot()
run()
snapshot()
"""


@dataclass(frozen=True)
class Work:
    """The work of one machine: elapsed and busy time in nanoseconds, and the numbers of RDMA packets and of retransmissions."""

    elapsed: int
    busy: int
    packets: int = 0
    repeated: int = 0

    def __sub__(self, before: Work) -> Work:
        return Work(self.elapsed - before.elapsed, self.busy - before.busy, self.packets - before.packets, self.repeated - before.repeated)

    @property
    def instructions(self) -> float:
        return self.busy / NS_PER_INSTRUCTION


def parsed(text: str) -> Work:
    now = int(re.search(r"^now at (\d+) nsecs", text, re.M)[1])
    idle = sum(int(number) for number in re.findall(r"\.(?:idle|iowait)_sleeptime\s*:\s*(\d+) nsecs", text))
    counter = {name: int(value) for name, value in re.findall(r"/(\w+):(\d+)$", text, re.M)}
    packets = counter.get("sent_pkts", 0) + counter.get("rcvd_pkts", 0)
    repeated = sum(counter.get(name, 0) for name in ("duplicate_request", "out_of_seq_request", "completer_retry_err"))
    return Work(now, now - idle, packets, repeated)


def snapshots(vms: Sequence[Vm]) -> list[Work]:
    asked = [vm.start(SNAPSHOT) for vm in vms]
    return [parsed(process.wait().require().stdout) for process in asked]


def since(vms: Sequence[Vm], before: Sequence[Work]) -> list[Work]:
    return [now - then for now, then in zip(snapshots(vms), before)]


def counted_loop(vm: Vm) -> float:
    """Runs a loop of two instructions. Returns the ratio of the busy instructions to those of the loop, which is slightly above
    1 if the clock counts instructions."""
    before, after = vm.run(["python3", "-c", LOOP], 120).stdout.split("now at")[1:]
    done = parsed("now at" + after) - parsed("now at" + before)
    return done.instructions / (2 * LOOPS)
