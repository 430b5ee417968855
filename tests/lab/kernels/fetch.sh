# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The common part of newer.sh and newest.sh. Each of the two fetches one of Debian's kernels, once, and prints
# its directory. They set `kind`, the first part of the directory's name, and source this file.
set -euo pipefail
cache=${WSS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wss}
limit=${WSS_FETCH_SECONDS:-900}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { echo "$kind-kernel: $*" >&2; }
fail() { say "$*"; exit 1; }
complete() { find "$cache" -maxdepth 1 -name "$kind-kernel-*" -exec test -f '{}/complete' ';' -print | sort -V | tail -1; }

# Prints the mirror from which apt gets this release of Debian. WSS_MIRROR=URL overrides it.
mirror() {
	local release
	release=$(. /etc/os-release && echo "$VERSION_CODENAME")
	apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' | awk -v r="$release" '$1 == r { print $2; exit }'
}

# Permits only one fetch at a time. Exits if the kernel already exists and no newer one is requested
# (WSS_NEWER_KERNEL=again). Otherwise sets $work to an empty directory that is removed when the script exits.
begin() {
	mkdir -p "$cache"
	exec 9>"$cache/$kind.lock"
	flock -w "$limit" 9 || fail "another fetch has held $cache/$kind.lock for $limit s"
	home=$(complete)
	if [ -n "$home" ] && [ "${WSS_NEWER_KERNEL:-}" != again ]; then
		echo "$home"
		exit 0
	fi
	mirror=${WSS_MIRROR:-$(mirror)}
	[ -n "$mirror" ] || fail "apt's configuration names no mirror of this release; specify one with WSS_MIRROR"
	find "$cache" -maxdepth 1 -name "$kind.??????" -exec rm -rf {} + # left by a killed run; this one has the lock
	work=$(mktemp -d "$cache/$kind.XXXXXX")
	trap 'rm -rf "$work"' EXIT
}

# Sets home for this release of the kernel. Exits if it already exists.
found() {
	home=$cache/$kind-kernel-$1
	[ ! -f "$home/complete" ] || { echo "$home"; exit 0; }
}

# unpack_kernel RELEASE TREE PACKAGE…: unpacks the image as TREE/bzImage, and the modules, uncompressed, in
# TREE/lib/modules
unpack_kernel() {
	local release=$1 tree=$2 package image
	shift 2
	mkdir -p "$tree"
	for package in "$@"; do
		dpkg-deb -x "$package" "$tree"
	done
	if [ -d "$tree/usr/lib/modules" ]; then # where newer packages have the modules
		mkdir -p "$tree/lib"
		mv "$tree/usr/lib/modules" "$tree/lib/modules"
	fi
	for image in "$tree/boot/vmlinuz-$release" "$tree/lib/modules/$release/vmlinuz"; do
		[ ! -f "$image" ] || mv "$image" "$tree/bzImage"
	done
	[ -f "$tree/bzImage" ] || fail "the packages of Linux $release have no image where one is expected"
	find "$tree/lib/modules" -name '*.ko.xz' -print0 | xargs -0 -r -P "$(nproc)" -n 100 xz -d
	rm -rf "$tree/lib/modules/$release"/{build,source} "$tree/boot"
	depmod -b "$tree" "$release"
}

# finish TREE: removes older and incomplete kernels, renames TREE to $home, and prints $home.
finish() {
	find "$cache" -maxdepth 1 -name "$kind-kernel-*" -exec rm -rf {} +
	mv "$1" "$home"
	touch "$home/complete"
	say "done"
	echo "$home"
}
