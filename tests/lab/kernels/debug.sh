#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the lab's debug kernel from Debian's sources with the options in debug.config, once for each
# combination of options, version of the source package, and version of gcc. Prints its directory:
#   bzImage            the image
#   lib/modules/…      its modules
#   build/             the prepared tree against which modules are built (KDIR)
# The directory is below ${WSS_CACHE:-~/.cache/wss}, so that a new clone can use it. Progress is printed on standard error.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
config=$here/debug.config
archive=${WSS_KERNEL_SOURCE:-/usr/src/linux-source-6.1.tar.xz}
jobs=${JOBS:-$(nproc)}

say() { echo "debug-kernel: $*" >&2; }

[ -f "$archive" ] || { say "$archive is missing; install the package linux-source-6.1 (make deps)"; exit 1; }
version=$(dpkg-query -W -f '${Version}' linux-source-6.1 2>/dev/null || stat -c %Y "$archive")
key=$({ grep -v "^#" "$config"; echo "$version"; gcc -dumpfullversion; } | sha256sum | cut -c1-16)
cache=${WSS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wss}
home=$cache/debug-kernel-$key
if [ -f "$home/complete" ]; then
	echo "$home"
	exit 0
fi

# Most of the archive consists of the sources of other architectures and of drivers that no option selects. They are not extracted.
extract() {
	LC_ALL=C tar xf "$archive" -C "$home/source" --strip-components=1 --wildcards --wildcards-match-slash \
		--exclude='*/drivers/gpu/*.[ch]' --exclude='*/drivers/media/*.[ch]' --exclude='*/drivers/staging/*.[ch]' \
		--exclude='*/drivers/net/ethernet/*.[ch]' --exclude='*/drivers/net/wireless/*.[ch]' --exclude='*/sound/*.[ch]' \
		--exclude='*/arch/[a-wyz]*/*.[chS]' --exclude='*/arch/[a-wyz]*/*.dts*' --exclude='*/Documentation/*/*' --exclude='*/tools/perf/*' --exclude='*/tools/testing/*'
}

run_make() { make -s -C "$home/source" O="$home/build" "$@" >"$home/log" 2>&1 || { tail -40 "$home/log" >&2; say "make $* failed; the complete log is $home/log"; exit 1; }; }

configure() {
	cp "$config" "$home/options"
	run_make KCONFIG_ALLCONFIG="$home/options" allnoconfig
	# kconfig silently drops options whose dependencies are missing, so check that every option has taken effect.
	missing=$(grep -E '^CONFIG_.*=[^n]' "$home/options" | grep -vxFf "$home/build/.config" || true)
	[ -z "$missing" ] || { say "options without effect:" $missing; exit 1; }
}

# Only one build at a time uses the directory. A second one waits and then uses its result.
mkdir -p "$cache"
exec 9>"$cache/debug.lock"
flock -w 7200 9 || { say "another build has held $cache/debug.lock for two hours"; exit 1; }
if [ -f "$home/complete" ]; then
	echo "$home"
	exit 0
fi
started=$SECONDS
say "building Linux $version into $home, once"
find "$cache" -maxdepth 1 -name 'debug-kernel-*' ! -path "$home" -exec rm -rf {} + # those of older options
# An interrupted build is resumed.
if [ ! -f "$home/configured" ]; then
	rm -rf "$home"
	mkdir -p "$home/source" "$home/build"
	extract
	configure
	touch "$home/configured"
fi

run_make -j"$jobs" bzImage modules &
building=$!
while sleep 30 && kill -0 $building 2>/dev/null; do
	say "$((SECONDS - started)) s, $(find "$home/build" -name '*.o' | wc -l) objects"
done
wait $building
cp "$home/build/arch/x86/boot/bzImage" "$home/bzImage"
run_make INSTALL_MOD_PATH="$home" modules_install
rm -f "$home"/lib/modules/*/build "$home"/lib/modules/*/source
# Modules need only headers, scripts and symbol versions, not the objects.
find "$home/build" -name '*.o' -not -path '*/scripts/*' -not -path '*/tools/*' -delete
rm -f "$home/build/vmlinux" "$home/build/arch/x86/boot/bzImage"
touch "$home/complete"
say "done after $((SECONDS - started)) s"
echo "$home"
