#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds one of the lab's own kernels from Debian's sources, once per content of its options and version of the source package,
# and prints the directory that holds it:
#   build.sh debug     with KASAN, lockdep, kmemleak, UBSAN, fault injection
#   build.sh plain     the same without these, for measurements: it has RNBD and SIW, which Debian's kernel leaves out
#
#   bzImage            the image
#   lib/modules/…      its modules
#   build/             the prepared tree that modules are built against (KDIR)
# The directory is below ${WSS_CACHE:-~/.cache/wss}, so that a new clone finds it. What goes on is said on standard error.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
flavour=${1:-}
case $flavour in
debug) configs=("$here/base.config" "$here/debug.config") ;;
plain) configs=("$here/base.config") ;;
*) echo "usage: build.sh debug|plain" >&2; exit 2 ;;
esac
archive=${WSS_KERNEL_SOURCE:-/usr/src/linux-source-6.1.tar.xz}
jobs=${JOBS:-$(nproc)}

say() { echo "$flavour-kernel: $*" >&2; }

[ -f "$archive" ] || { say "$archive is missing; install the package linux-source-6.1 (make deps)"; exit 1; }
version=$(dpkg-query -W -f '${Version}' linux-source-6.1 2>/dev/null || stat -c %Y "$archive")
key=$({ cat "${configs[@]}"; echo "$version"; gcc -dumpfullversion; } | sha256sum | cut -c1-16)
cache=${WSS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wss}
home=$cache/$flavour-kernel-$key
if [ -f "$home/complete" ]; then
	echo "$home"
	exit 0
fi

# Two builds at once would fight over the directory: the second waits, and finds it done.
mkdir -p "$cache"
exec 9>"$cache/$flavour.lock"
flock -w 7200 9 || { say "another build holds $cache/$flavour.lock for two hours"; exit 1; }
if [ -f "$home/complete" ]; then
	echo "$home"
	exit 0
fi
started=$SECONDS
say "building Linux $version into $home: about 15 minutes on 2 cores, once"
rm -rf "$cache/$flavour"-kernel-* # of older options
mkdir -p "$home/source" "$home/build"
tar xf "$archive" -C "$home/source" --strip-components=1

run_make() { make -s -C "$home/source" O="$home/build" "$@" >"$home/log" 2>&1 || { tail -40 "$home/log" >&2; say "make $* failed; all of it: $home/log"; exit 1; }; }
cat "${configs[@]}" >"$home/options"
run_make KCONFIG_ALLCONFIG="$home/options" allnoconfig
# kconfig drops what its dependencies do not allow without a word: every option must have taken effect.
missing=$(grep -E '^CONFIG_.*=[^n]' "$home/options" | grep -vxFf "$home/build/.config" || true)
[ -z "$missing" ] || { say "options without effect:" $missing; exit 1; }

run_make -j"$jobs" bzImage modules &
building=$!
while sleep 30 && kill -0 $building 2>/dev/null; do
	say "$((SECONDS - started)) s, $(find "$home/build" -name '*.o' | wc -l) objects"
done
wait $building
cp "$home/build/arch/x86/boot/bzImage" "$home/bzImage"
run_make INSTALL_MOD_PATH="$home" modules_install
rm -f "$home"/lib/modules/*/build "$home"/lib/modules/*/source
# Modules need headers, scripts and symbol versions, not the objects.
find "$home/build" -name '*.o' -not -path '*/scripts/*' -not -path '*/tools/*' -delete
rm -f "$home/build/vmlinux" "$home/build/arch/x86/boot/bzImage"
touch "$home/complete"
say "done after $((SECONDS - started)) s"
echo "$home"
