# SPDX-License-Identifier: Apache-2.0
"""Random allocation failures (1 to 5 %) during map, I/O, recovery and unmap cause only errors.

Failures are injected into processes that use the driver and into all kernel threads, including the workers of the driver, of
RDMA/CM and of the device. The rest of the machine is exempt. All programs run from memory, because the
failures would damage the root file system. The target has its own machine: without memory for an incoming
connection, the rdma_ucm of 6.1 deadlocks (rdma_destroy_id in the event handler). After that, the machine can
establish no connection. The test needs a kernel with fault injection (make check-debug), which the stock
kernel lacks."""

import os

import pytest

from tests.lab.fixtures import SHARED_SHAPE
from tests.system.behaviour.rig import DEBUGFS, THOROUGH
from tests.system.block_setup import Target, loaded, run_fio

SECONDS = 660 if THOROUGH else 20
LOOP = """
    mkdir -p /tmp/bin && cp $(command -v busybox) /tmp/bin/ && /tmp/bin/busybox --install -s /tmp/bin
    cat > /tmp/loop <<'END'
    PATH=/tmp/bin
    for point in failslab fail_page_alloc; do
        cd {debugfs}/$point
        echo 0 > verbose; echo 1 > interval; echo -1 > times; echo N > ignore-gfp-wait; echo Y > task-filter
    done
    echo 0 > {debugfs}/fail_page_alloc/min-order
    cd /tmp
    head -c 512k /dev/urandom > pattern
    # New kernel threads inherit the setting of kthreadd, which is process 2.
    threads() {{
        for status in /proc/2/status $(grep -l "^PPid:.2$" /proc/[0-9]*/status); do echo $1 > ${{status%status}}make-it-fail; done 2>/dev/null
    }}
    failing() {{ echo 1 > /proc/self/make-it-fail; }}
    probability() {{ for point in failslab fail_page_alloc; do echo $1 > {debugfs}/$point/probability; done; }}
    end=$(($(cut -d. -f1 /proc/uptime) + {seconds})) rounds=0 maps=0 resets=0 right=0
    while [ $(cut -d. -f1 /proc/uptime) -lt $end ] || [ $rounds -lt 5 ]; do
        rounds=$((rounds + 1))
        what="target={address} volume=a reconnect_delay=1 fast_io_fail_tmo=3 queues=1 queue_depth=$((rounds % 4 + 2))"
        probability $((rounds % 5 + 1))
        threads 1
        # A map does a few hundred allocations and seldom succeeds. The later steps must have failures as well.
        if (failing; echo $what > /sys/class/wss/map); then
            maps=$((maps + 1))
        else
            probability 0
            echo $what > /sys/class/wss/map && [ -b /dev/wss0 ] || {{ echo "NOT MAPPED in round $rounds" >&2; continue; }}
            probability $((rounds % 5 + 1))
        fi
        (failing; exec dd if=pattern of=/dev/wss0 bs=64k oflag=direct status=none) && written=yes || written=no
        for reset in /sys/class/wss/session*/reset; do  # sh expands no pattern after >
            echo 1 > $reset && resets=$((resets + 1))
        done
        (failing; exec dd if=/dev/wss0 of=back bs=64k iflag=direct count=8 status=none) &&
            [ $written = yes ] && ! cmp pattern back >&2 && echo "WRONG DATA in round $rounds" >&2
        # With memory available, the driver must recover, and acknowledged data must be there.
        probability 0
        threads 0
        tries=0
        until grep -q live /sys/class/wss/session*/state; do
            tries=$((tries + 1)); [ $tries -lt 600 ] || {{ echo "NOT RECOVERED in round $rounds" >&2; break; }}
            sleep 0.1
        done
        [ $written = yes ] || dd if=pattern of=/dev/wss0 bs=64k oflag=direct status=none || echo "NOT WRITTEN in round $rounds" >&2
        dd if=/dev/wss0 of=back bs=4k count=128 iflag=direct status=none && cmp pattern back >&2 && right=$((right + 1)) ||
            echo "WRONG DATA in round $rounds" >&2
        probability $((rounds % 5 + 1))
        for disk in $(ls /sys/block | grep ^wss); do
            (failing; echo "$disk force" > /sys/class/wss/unmap)
            [ ! -e /sys/block/$disk ] || echo "$disk force" > /sys/class/wss/unmap || echo "NOT UNMAPPED in round $rounds" >&2
        done
        probability 0
    done 2> complaints
    grep -qE '^(WRONG|NOT) ' complaints && tail -n 40 complaints
    echo "rounds=$rounds maps=$maps resets=$resets right=$right"
END
    exec /tmp/bin/busybox sh /tmp/loop
"""


@pytest.mark.skipif(not os.environ.get("WSS_DEBUG_KERNEL"), reason="the stock kernel cannot make allocations fail")
def test_driver_survives_allocation_failures(make_lab) -> None:
    client, server = make_lab(2, SHARED_SHAPE).vms
    client.run(f"mountpoint -q {DEBUGFS} || mount -t debugfs debugfs {DEBUGFS}; test -d {DEBUGFS}/failslab")
    client.klog.allow(r"rxe_qp_do_cleanup", "rxe of 6.1 deletes the timers of a queue pair whose creation failed", anywhere=True)
    with Target(server, {"a": "ram:32M"}) as target, loaded(client) as driver:
        said = client.run(LOOP.format(debugfs=DEBUGFS, address=target.address, seconds=SECONDS), SECONDS + 300)
        complaints, _, last = said.stdout.rstrip().rpartition("\n")
        assert not complaints, said.stdout
        words = {name: int(value) for name, value in (word.split("=") for word in last.split())}
        print(last)
        assert words["resets"] == words["right"] == words["rounds"] > 0, last
        end = run_fio(client, driver.map(target, "a"), "--rw=randwrite --verify=crc32c --verify_fatal=1 --size=2m --bs=16k --iodepth=4")
        assert end.status == end.error == 0 and end.verified > 0, end
        driver.assert_nothing_leaks()
