#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds modules that Debian's kernel omits. It builds them from that kernel's own sources, for a kernel whose
# headers are installed. This takes half a minute, once. Prints the directory of the modules.
#   left_out.sh rnbd RELEASE        RTRS and RNBD, for `make bench-peers`; RELEASE is like 6.1.0-56-amd64
#   left_out.sh siw RELEASE         soft iWARP, a second network for the driver's figures (wssbench mlockv --rdma siw)
set -euo pipefail
what=${1:?usage: left_out.sh rnbd|siw RELEASE} release=${2:?usage: left_out.sh rnbd|siw RELEASE}
archive=${WSS_KERNEL_SOURCE:-/usr/src/linux-source-6.1.tar.xz}
headers=/lib/modules/$release/build

say() { echo "left_out: $*" >&2; }

case $what in
rnbd)
	parts='block/rnbd infiniband/ulp/rtrs'
	settings='CONFIG_INFINIBAND_RTRS=m CONFIG_INFINIBAND_RTRS_CLIENT=m CONFIG_INFINIBAND_RTRS_SERVER=m CONFIG_BLK_DEV_RNBD_CLIENT=m CONFIG_BLK_DEV_RNBD_SERVER=m'
	order='rtrs/ rnbd/'
	;;
siw)
	parts='infiniband/sw/siw'
	settings='CONFIG_RDMA_SIW=m'
	order='siw/'
	;;
*) say "there is no recipe for $what"; exit 2 ;;
esac
[ -f "$archive" ] || { say "$archive is missing; install the package linux-source-6.1 (make deps)"; exit 1; }
[ -d "$headers" ] || { say "$headers is missing; install the package linux-headers-amd64 (make deps)"; exit 1; }
home=${WSS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wss}/$what-$release-$(stat -c %Y "$archive")
if [ ! -f "$home/complete" ]; then
	say "building $what for $release into $home, once"
	rm -rf "$home"
	mkdir -p "$home"
	for part in $parts; do
		slashes=${part//[^\/]/}
		tar xf "$archive" -C "$home" --strip-components=$((${#slashes} + 2)) --wildcards "*/drivers/$part/*"
	done
	echo "obj-y += $order" >"$home/Kbuild"
	# shellcheck disable=SC2086 # words
	make -s -j"$(nproc)" -C "$headers" M="$home" $settings KCFLAGS="-I$home/rtrs" modules >"$home/log" 2>&1 ||
		{ tail -20 "$home/log" >&2; say "the build failed; the complete log is $home/log"; exit 1; }
	touch "$home/complete"
fi
echo "$home"
