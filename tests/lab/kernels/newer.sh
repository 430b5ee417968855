#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the newer kernel that Debian's backports provide for this release, with its headers, unless it was
# fetched before. Prints the directory:
#   bzImage            the image
#   lib/modules/…      its modules, uncompressed, because an emulated machine needs seconds to unpack each
#   build/             the headers against which modules are built (KDIR)
# Nothing is installed, and the machine's package lists do not change: apt uses separate lists and a separate cache, and checks
# signatures as usual. The directory is below ${WSS_CACHE:-~/.cache/wss}. `WSS_NEWER_KERNEL=again` looks for a newer kernel.
kind=newer
# shellcheck source=tests/lab/kernels/fetch.sh
. "$(dirname "$0")/fetch.sh"
begin
mkdir -p "$work"/{lists/partial,cache/archives/partial,debs}
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")-backports
echo "deb [signed-by=$keyring] $mirror $suite main" >"$work/sources.list"
# Ignores the installed packages. Otherwise apt would use them in place of packages that the mirror lacks. A
# missing list is an error.
own_apt() {
	local tool=$1
	shift
	timeout "$limit" "$tool" -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::Lists="$work/lists" \
		-o Dir::State::status=/dev/null -o Dir::Cache="$work/cache" -o APT::Update::Error-Mode=any -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}
depends() { own_apt apt-cache depends --no-recommends --no-suggests "$1" | sed -n 's/^ *Depends: \(linux-[a-z]*-[0-9].*\)/\1/p'; }

own_apt apt-get update >"$work/log" 2>&1 || { tail -5 "$work/log" >&2; fail "the lists of $suite could not be fetched from $mirror (WSS_MIRROR)"; }
image=$(depends linux-image-amd64 | sort -V | tail -1)
headers=$(depends linux-headers-amd64 | sort -V | tail -1)
[ -n "$image" ] && [ -n "$headers" ] || fail "$suite has no linux-image-amd64 with linux-headers-amd64"
release=${image#linux-image-}
found "$release"

say "fetching Linux $release of $suite into $home, once: about 120 MB"
# shellcheck disable=SC2046 # names, without spaces
(cd "$work/debs" && own_apt apt-get download "$image" "$headers" $(depends "$headers" | grep -E 'common|kbuild')) >"$work/log" 2>&1 ||
	{ tail -5 "$work/log" >&2; fail "the packages could not be fetched"; }
unpack_kernel "$release" "$work/tree" "$work"/debs/*.deb
# The headers of a package refer to others by their installed paths. Removing vmlinux prevents the generation
# of BTF, which nothing here reads.
ln -s "usr/src/linux-headers-$release" "$work/tree/build"
sed -i "s#^include /usr/src#include $home/usr/src#" "$work/tree/build/Makefile"
rm -f "$work/tree/build/vmlinux"
finish "$work/tree"
