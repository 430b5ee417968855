# SPDX-License-Identifier: Apache-2.0
"""Allocations of the driver fail at random, through map, I/O, recovery and unmap: errors, and nothing worse.

Needs a kernel that can make them fail (make check-debug); the stock kernel cannot."""

import pytest

from tests.system.behaviour.rig import DEBUGFS, THOROUGH, Rig

SECONDS = 600 if THOROUGH else 20
LOOP = """
    text=$(cat /sys/module/wss/sections/.text) size=$(cat /sys/module/wss/coresize)
    for point in failslab fail_page_alloc; do
        cd {debugfs}/$point
        echo 0 > verbose; echo 1 > interval; echo -1 > times; echo N > ignore-gfp-wait; echo N > task-filter
        if [ -e require-start ]; then
            echo $text > require-start; printf '0x%x\\n' $((text + size)) > require-end; echo 32 > stacktrace-depth
        else
            echo Y > task-filter
        fi
    done
    echo 0 > {debugfs}/fail_page_alloc/min-order 2>/dev/null
    echo 1 > /proc/self/make-it-fail
    end=$(($(date +%s) + {seconds})) rounds=0 maps=0
    while [ $(date +%s) -lt $end ]; do
        percent=$((rounds % 5 + 1)); rounds=$((rounds + 1))
        echo $percent > {debugfs}/failslab/probability; echo $percent > {debugfs}/fail_page_alloc/probability
        if echo target={address} volume=a reconnect_delay=1 fast_io_fail_tmo=3 queue_depth=16 > /sys/class/wss/map; then
            maps=$((maps + 1))
            dd if=/dev/zero of=/dev/wss0 bs=64k count=8 oflag=direct status=none
            echo 1 > /sys/class/wss/session0/reset
            dd if=/dev/wss0 of=/dev/null bs=4k count=8 iflag=direct status=none
        else
            grep -q . /sys/class/wss/last_error || echo "a failure without a reason" >&2
        fi
        for disk in /sys/block/wss*; do
            [ -e $disk ] && echo "$(basename $disk) force" > /sys/class/wss/unmap
        done
    done 2> /tmp/alloc.err
    echo 0 > {debugfs}/failslab/probability; echo 0 > {debugfs}/fail_page_alloc/probability
    ! grep 'without a reason' /tmp/alloc.err && echo "rounds=$rounds maps=$maps"
"""


def test_allocation_failures(rig: Rig) -> None:
    if not rig.vm.run(f"test -d {DEBUGFS}/failslab", check=False).ok:
        pytest.skip("this kernel cannot make allocations fail")
    said = rig.vm.run(LOOP.format(debugfs=DEBUGFS, address=rig.target.address, seconds=SECONDS), SECONDS + 300)
    words = dict(word.split("=") for word in said.stdout.split())
    assert int(words["rounds"]) > 2, said
    rig.verify(rig.map("a"))
