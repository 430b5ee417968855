#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds RTRS and RNBD, which Debian's kernel leaves out, from its own sources for a kernel whose headers are installed: half a
# minute, once. Prints the directory of the modules. They are peers in `make bench-peers`.
#   rnbd.sh RELEASE        as 6.1.0-56-amd64
set -euo pipefail
release=${1:?usage: rnbd.sh RELEASE}
archive=${WSS_KERNEL_SOURCE:-/usr/src/linux-source-6.1.tar.xz}
headers=/lib/modules/$release/build

say() { echo "rnbd: $*" >&2; }

[ -f "$archive" ] || { say "$archive is missing; install the package linux-source-6.1 (make deps)"; exit 1; }
[ -d "$headers" ] || { say "$headers is missing; install the package linux-headers-amd64 (make deps)"; exit 1; }
home=${WSS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wss}/rnbd-$release-$(stat -c %Y "$archive")
if [ ! -f "$home/complete" ]; then
	say "building RTRS and RNBD for $release into $home, once"
	rm -rf "$home"
	mkdir -p "$home"
	tar xf "$archive" -C "$home" --strip-components=3 --wildcards '*/drivers/block/rnbd/*'
	tar xf "$archive" -C "$home" --strip-components=4 --wildcards '*/drivers/infiniband/ulp/rtrs/*'
	echo 'obj-y += rtrs/ rnbd/' >"$home/Kbuild"
	make -s -j"$(nproc)" -C "$headers" M="$home" CONFIG_INFINIBAND_RTRS=m CONFIG_INFINIBAND_RTRS_CLIENT=m CONFIG_INFINIBAND_RTRS_SERVER=m \
		CONFIG_BLK_DEV_RNBD_CLIENT=m CONFIG_BLK_DEV_RNBD_SERVER=m KCFLAGS="-I$home/rtrs" modules >"$home/log" 2>&1 ||
		{ tail -20 "$home/log" >&2; say "all of it: $home/log"; exit 1; }
	touch "$home/complete"
fi
echo "$home"
