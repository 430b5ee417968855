#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# The first process of a lab machine, in the initramfs. Loads the few modules that are needed to access the host's root file system,
# overlays that with a tmpfs, mounts new /proc, /sys, /dev, /run and /tmp, and starts the agent.
# Words of the kernel command line: lab.agent=SCRIPT lab.keep=DIR,… (stay visible under /tmp or /run)
# lab.modules=DIR lab.probe

export PATH=/bin
/bin/busybox --install -s /bin

die() {
    echo "lab-init: $*" >/dev/console
    echo o >/proc/sysrq-trigger
    while :; do :; done
}

# The upper layers of all overlays are on one tmpfs, each in its own directory.
overlay() { # lower, mount point
    layer=/rw/$(echo "$2" | tr / _)
    mkdir -p "$layer/upper" "$layer/work" "$2"
    mount -t overlay -o "lowerdir=$1,upperdir=$layer/upper,workdir=$layer/work" overlay "$2" || die "overlay on $2"
}

mkdir -p /proc /sys /dev /ro /rw /root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for word in $(cat /proc/cmdline); do
    case $word in
    lab.agent=*) agent=${word#*=} ;;
    lab.keep=*) keep=$(echo "${word#*=}" | tr , ' ') ;;
    lab.modules=*) modules=${word#*=} ;;
    lab.probe) echo lab-probe-ok >/dev/console; echo o >/proc/sysrq-trigger; while :; do :; done ;;
    esac
done

while read -r module; do
    insmod "/modules/$module" || die "insmod $module"
done </modules/order

plan9=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o "$plan9,cache=loose,ro" host /ro || die "9p: the host's root file system"
mount -t tmpfs -o mode=755 tmpfs /rw
overlay /ro /root
for fresh in tmp run; do
    mount -t tmpfs -o mode=1777 tmpfs /root/$fresh
done
chmod 755 /root/run
for path in $keep; do
    overlay "/ro$path" "/root$path"
done
if [ -n "$modules" ]; then
    release=$(uname -r)
    mkdir -p "/root/lib/modules/$release"
    mount -o bind "/ro$modules" "/root/lib/modules/$release" || die "bind $modules"
fi
mkdir -p /root/lab /root/run/lock
mount -t 9p -o "$plan9,cache=mmap" share /root/lab || die "9p: the run's scratch directory"

mount -o move /dev /root/dev
mkdir -p /root/dev/pts /root/dev/shm
mount -t devpts -o mode=620,ptmxmode=666 devpts /root/dev/pts
mount -t tmpfs -o mode=1777 tmpfs /root/dev/shm
mount -o move /sys /root/sys
mount -t debugfs debugfs /root/sys/kernel/debug
mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
mount -o move /proc /root/proc
# -S -E -B (no site packages, no environment, no byte code) make the start shorter
exec switch_root /root /usr/bin/python3 -S -E -B "$agent"
