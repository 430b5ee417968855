#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the newest kernel of Debian's stable release (from its backports), unless it was fetched before.
# Also makes a small tree of that release in which modules are built, because the kernel's build tools need
# its compiler and C library. Prints the directory:
#   bzImage            the image
#   lib/modules/…      its modules, unpacked
#   root/              the tree (in_tree runs commands in it)
#   build              a link to the headers against which modules are built, by their path in the tree
# Nothing is installed on the machine. The directory is below ${WSS_CACHE:-~/.cache/wss}. `WSS_NEWER_KERNEL=again` looks for a newer kernel.
kind=newest
# shellcheck source=tests/lab/kernels/fetch.sh
. "$(dirname "$0")/fetch.sh"
begin
root=$work/tree/root
mkdir -p "$work/tree"
in_root() { timeout "$limit" chroot "$root" env DEBIAN_FRONTEND=noninteractive "$@"; }
try() { "$@" >>"$work/log" 2>&1 || { tail -5 "$work/log" >&2; fail "$what"; }; }

say "creating a tree of Debian's stable release, once: about 600 MB"
what="the tree could not be created from $mirror (WSS_MIRROR)"
try timeout "$limit" mmdebstrap --variant=apt --include=gcc,make,kmod stable "$root" "deb [signed-by=$keyring] $mirror stable main"
# Use the code name, because the alias of a suite may be served from an old copy after the lists have expired.
stable=$(. "$root/etc/os-release" && echo "$VERSION_CODENAME")
for suite in "$stable" "$stable-backports"; do
	echo "deb [signed-by=$keyring] $mirror $suite main"
done >"$root/etc/apt/sources.list"
what="the lists of $stable-backports could not be fetched from $mirror (WSS_MIRROR)"
try in_root apt-get -q -o APT::Update::Error-Mode=any update
release=$(in_root apt-cache depends -t "$stable-backports" linux-headers-amd64 | sed -n 's/^ *Depends: linux-headers-\([0-9].*\)/\1/p' | sort -V | tail -1)
[ -n "$release" ] || fail "$stable-backports has no linux-headers-amd64"
found "$release"

say "fetching Linux $release of $stable-backports into $home, once: about 150 MB"
what="the packages could not be fetched"
try in_root apt-get -y -q install --no-install-recommends "linux-headers-$release"
# The image and its modules are one package in some releases, and two or three in others.
mapfile -t packages < <(in_root apt-cache pkgnames linux- | grep -xF "$(printf "linux-%s-$release\n" image base binary modules)")
[ "${#packages[@]}" -gt 0 ] || fail "$stable-backports has no image of Linux $release"
try in_root sh -c "cd /var/tmp && apt-get -q -o APT::Sandbox::User=root download ${packages[*]}"
unpack_kernel "$release" "$work/tree" "$root"/var/tmp/*.deb
rm -rf "$root"/var/tmp/*.deb "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
rm -f "$root/usr/src/linux-headers-$release/vmlinux" # prevents the generation of BTF, which nothing here reads
ln -s "/usr/src/linux-headers-$release" "$work/tree/build"
finish "$work/tree"
