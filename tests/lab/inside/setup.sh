#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# First command in a machine: its name, its network card on the private segment, soft RDMA on it.
# Arguments: name, address, MTU, "rdma" or "none".
set -eu
name=$1 address=$2 mtu=$3 rdma=$4

echo "$name" >/proc/sys/kernel/hostname
echo 1 >/proc/sys/kernel/hung_task_warnings
ulimit -n 65536
ip link set lo up
ip link set eth0 mtu "$mtu" up
ip address add "$address/24" dev eth0
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null || true # not in every kernel
[ "$rdma" = rdma ] || exit 0
modprobe -a rdma_rxe rdma_ucm
rdma link add rxe0 type rxe netdev eth0
