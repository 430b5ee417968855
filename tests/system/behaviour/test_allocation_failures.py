# SPDX-License-Identifier: Apache-2.0
"""Allocations fail at random, 1 to 5 in a hundred, through map, I/O, recovery and unmap: errors, and nothing worse.

Whoever asks the driver for something, and every thread of the kernel (the workers of driver, RDMA/CM and device among them), is
chosen to fail; the rest of the machine is spared. Needs a kernel that can make allocations fail (make check-debug); the stock
kernel cannot."""

import os

import pytest

from tests.system.behaviour.rig import DEBUGFS, THOROUGH, Rig

SECONDS = 660 if THOROUGH else 20
LOOP = """
    for point in failslab fail_page_alloc; do
        cd {debugfs}/$point
        echo 0 > verbose; echo 1 > interval; echo -1 > times; echo N > ignore-gfp-wait; echo Y > task-filter
    done
    echo 0 > {debugfs}/fail_page_alloc/min-order
    cd /tmp
    head -c 512k /dev/urandom > pattern
    # New kernel threads take after kthreadd, which is process 2.
    threads() {{ for pid in 2 $(pgrep -P 2); do echo $1 > /proc/$pid/make-it-fail; done 2>/dev/null; }}
    failing() {{ echo 1 > /proc/self/make-it-fail; }}
    probability() {{ for point in failslab fail_page_alloc; do echo $1 > {debugfs}/$point/probability; done; }}
    threads 1
    end=$(($(cut -d. -f1 /proc/uptime) + {seconds})) rounds=0 maps=0 resets=0 right=0
    while [ $(cut -d. -f1 /proc/uptime) -lt $end ]; do
        rounds=$((rounds + 1))
        probability $((rounds % 5 + 1))
        if (failing; echo target={address} volume=a reconnect_delay=1 fast_io_fail_tmo=3 queue_depth=16 > /sys/class/wss/map); then
            maps=$((maps + 1))
            (failing; exec dd if=pattern of=/dev/wss0 bs=64k oflag=direct status=none) && written=yes || written=no
            for reset in /sys/class/wss/session*/reset; do  # sh expands no pattern after >
                echo 1 > $reset && resets=$((resets + 1))
            done
            if (failing; exec dd if=/dev/wss0 of=back bs=4k count=128 iflag=direct status=none) && [ $written = yes ]; then
                cmp pattern back >&2 && right=$((right + 1)) || echo "WRONG DATA in round $rounds" >&2
            fi
        fi
        for disk in $(ls /sys/block | grep ^wss); do
            (failing; echo "$disk force" > /sys/class/wss/unmap)
            [ ! -e /sys/block/$disk ] || echo "$disk force" > /sys/class/wss/unmap || echo "NOT UNMAPPED in round $rounds" >&2
        done
    done 2> complaints
    probability 0
    threads 0
    grep -E '^(WRONG|NOT) ' complaints
    echo "rounds=$rounds maps=$maps resets=$resets right=$right"
"""


def test_allocation_failures(rig: Rig) -> None:
    if not rig.vm.run(f"test -d {DEBUGFS}/failslab", check=False).ok:
        assert not os.environ.get("WSS_DEBUG_KERNEL"), "the debug kernel is built to make allocations fail"
        pytest.skip("this kernel cannot make allocations fail")
    said = rig.vm.run(LOOP.format(debugfs=DEBUGFS, address=rig.target.address, seconds=SECONDS), SECONDS + 300)
    complaints, _, last = said.stdout.rstrip().rpartition("\n")
    assert not complaints, said.stdout
    words = {name: int(value) for name, value in (word.split("=") for word in last.split())}
    assert words["maps"] > 0 and words["resets"] > 0 and words["right"] > 0 and words["rounds"] > words["maps"] // 2, last
    print(last)
    rig.verify(rig.map("a"))
