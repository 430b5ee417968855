#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first command in a machine. Sets its name, its network card on the private segment, and soft RDMA.
# Arguments: name, address, MTU, kind of soft RDMA device (rxe, siw, none), number of NVMe disks.
set -eu
name=$1 address=$2 mtu=$3 rdma=$4 disks=$5

echo "$name" >/proc/sys/kernel/hostname
echo 60 >/proc/sys/kernel/hung_task_timeout_secs # half of the default, so that more tests run long enough to detect a hung task
ip link set lo up
ip link set eth0 mtu "$mtu" up
ip address add "$address/24" dev eth0
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null || true # not in every kernel
if [ "$rdma" != none ]; then
    modprobe -a "$([ "$rdma" = siw ] && echo siw || echo "rdma_$rdma")" rdma_ucm
    rdma link add "${rdma}0" type "$rdma" netdev eth0
fi
[ "$disks" -gt 0 ] || exit 0
modprobe nvme # the driver detects its disks in the background
tries=200
until [ "$(find /dev -maxdepth 1 -name 'nvme*n1' | wc -l)" -eq "$disks" ]; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || { echo "only some of $disks NVMe disks appeared" >&2 && exit 1; }
    sleep 0.05
done
