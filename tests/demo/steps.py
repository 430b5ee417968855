# SPDX-License-Identifier: Apache-2.0
"""The demonstration, step by step. Each step is a function that does one thing in the machine and raises an
exception if it fails. Its results go into the report."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from tests.demo import kv_steps
from tests.lab.guest import Guest, Process

PORT = 5555
VOLUME = "demo"
VOLUME_MIB = 768
CONTROL = "/run/wss-demo.sock"
BACKING_MOUNT = "/run/wss-demo-backing"
MOUNT = "/run/wss-demo-mnt"
DEVICE = "/dev/wss0"
DRIVER_STATS = "/sys/class/wss/session0/stats"


@dataclass
class Demo:
    """The state that all steps share."""

    guest: Guest
    build: Path
    module: Path
    backing_device: str | None  # the NVMe disk for a file system, or None: the file is in /var/tmp
    target: Process | None = None
    report: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"{self.guest.address}:{PORT}"

    @property
    def backing_file(self) -> str:
        return f"{BACKING_MOUNT}/demo.img" if self.backing_device else "/var/tmp/wss-demo.img"

    def wssctl(self, arguments: str) -> dict:
        return json.loads(self.guest.run(f"{self.build}/wssctl --control {CONTROL} --json {arguments}").stdout)

    def driver_counters(self) -> dict[str, int]:
        listing = self.guest.run(f"grep -H . {DRIVER_STATS}/*").stdout
        return {Path(name).name: int(value) for name, value in re.findall(r"^(\S+):(\d+)$", listing, re.M)}


def prepare_backing(demo: Demo) -> str:
    if demo.backing_device is None:
        return f"file {demo.backing_file} on the machine's own disk"
    demo.guest.run(f"mkdir -p {BACKING_MOUNT} && mkfs.ext4 -q -F {demo.backing_device} && "
                   f"mount {demo.backing_device} {BACKING_MOUNT}")
    return f"ext4 on {demo.backing_device}, {demo.guest.run(['lsblk', '-ndo', 'SIZE', demo.backing_device]).stdout.strip()}"


def start_target(demo: Demo) -> str:
    demo.target = demo.guest.start(
        f"exec {demo.build}/wss-target --listen rdma://{demo.address} --control {CONTROL} "
        f"--volume {VOLUME}=aio:{demo.backing_file},size={VOLUME_MIB}M,create")
    demo.target.wait_for(r"ready", 30)
    return f"rdma://{demo.address}, volume '{VOLUME}' of {VOLUME_MIB} MiB in a file, by libaio with O_DIRECT"


def load_driver(demo: Demo) -> str:
    # insmod resolves no dependencies, so the modules that the driver needs are loaded first.
    demo.guest.run("modprobe -a rdma_cm ib_core")
    demo.guest.run(f"insmod {demo.module} target={demo.address} volume={VOLUME}")
    return f"insmod wss.ko target={demo.address} volume={VOLUME}"


def show_device(demo: Demo) -> str:
    listing = demo.guest.run(["lsblk", "-o", "NAME,SIZE,RO,TYPE,MODEL,PHY-SEC,LOG-SEC", DEVICE]).stdout.rstrip()
    return "\n" + "\n".join(f"      {line}" for line in listing.splitlines())


def verify_with_fio(demo: Demo) -> str:
    before = demo.driver_counters()
    job = json.loads(demo.guest.run(
        f"fio --name=verify --filename={DEVICE} --ioengine=libaio --direct=1 --rw=randwrite --bssplit=512/10:4k/40:16k/20:64k/20:256k/10 "
        f"--iodepth=16 --size=192M --verify=crc32c --verify_fatal=1 --verify_state_save=0 --randseed=1 --output-format=json", 300).stdout)["jobs"][0]
    if job["error"] or job["read"]["total_ios"] == 0:
        raise RuntimeError(f"fio: error {job['error']}, {job['read']['total_ios']} reads verified")
    after = demo.driver_counters()
    delta = {name: after[name] - before.get(name, 0) for name in after}
    large = delta["requests"] - delta["immediate_writes"]
    text = f"{delta['regions_registered'] / max(1, large):.3f} ({delta['regions_registered']} regions for {large} requests"
    if delta["regions_registered"] != large:
        raise RuntimeError(f"not one region per request: {text})")
    demo.report["regions per request"] = f"{text}; {delta['immediate_writes']} small writes went with their command and need none)"
    return f"{job['write']['total_ios']} writes, all read back and their checksums compared"


def measure(demo: Demo, name: str, pattern: str, block: str, depth: int) -> str:
    job = json.loads(demo.guest.run(
        f"fio --name={name} --filename={DEVICE} --ioengine=libaio --direct=1 --rw={pattern} --bs={block} --iodepth={depth} "
        "--size=192M --time_based --runtime=4 --output-format=json", 120).stdout)["jobs"][0]
    side = job["read"] if job["read"]["total_ios"] else job["write"]
    text = (f"{side['iops']:8.0f} IOPS, {side['bw_bytes'] / 1e6:7.1f} MB/s, latency mean {side['clat_ns']['mean'] / 1e3:.0f} µs, "
            f"99 % {side['clat_ns']['percentile']['99.000000'] / 1e3:.0f} µs")
    demo.report[f"{pattern} {block} depth {depth}"] = text
    return text


def use_a_file_system(demo: Demo) -> str:
    guest = demo.guest
    guest.run(f"mkfs.ext4 -q -F {DEVICE} && mkdir -p {MOUNT} && mount {DEVICE} {MOUNT}", 120)
    guest.run(f"mkdir {MOUNT}/files && for i in $(seq 1 40); do "
              f"dd if=/dev/urandom of={MOUNT}/files/$i bs=64k count=$((i % 8 + 1)) status=none; done", 120)
    sums = guest.run(f"cd {MOUNT}/files && sha256sum * | sort").stdout
    # Unmounting empties the page cache of this file system, so the next reads are sent to the target.
    guest.run(f"umount {MOUNT} && mount {DEVICE} {MOUNT}", 60)
    if guest.run(f"cd {MOUNT}/files && sha256sum * | sort", 120).stdout != sums:
        raise RuntimeError("files differ after unmounting and mounting again")
    guest.run(f"umount {MOUNT} && fsck.ext4 -fn {DEVICE}", 120)
    return f"{len(sums.splitlines())} files written, read back after a remount, same checksums; fsck clean"


def count_rdma(demo: Demo) -> str:
    """Counts the RDMA operations of all steps so far: fio, ext4 and the scan of the partition table."""
    sessions = demo.wssctl("session list")["sessions"]
    total = {name: sum(session["counters"][name] for session in sessions) for name in sessions[0]["counters"]}
    rdma = total["rdma_reads"] + total["rdma_writes"]
    text = f"{rdma / max(1, total['data_requests']):.3f} ({rdma} RDMAs for {total['data_requests']} requests with a region)"
    if rdma != total["data_requests"]:
        raise RuntimeError(f"not one RDMA per request: {text}")
    demo.report["RDMAs per request"] = text
    return text


def unload(demo: Demo) -> str:
    counters = demo.driver_counters()
    leaked = counters["dma_maps"] - counters["dma_unmaps"]
    if leaked:
        raise RuntimeError(f"{leaked} DMA mappings are still there")
    demo.guest.run("rmmod wss", 60)
    if demo.guest.run(["test", "-e", DEVICE], check=False).ok:
        raise RuntimeError(f"{DEVICE} is still there")
    return "rmmod wss; no mapping was left"


def stop_target(demo: Demo) -> str:
    assert demo.target is not None
    result = demo.target.stop(30)
    if result.status != 0:
        raise RuntimeError(f"wss-target ended with status {result.status}: {result.stderr}")
    if demo.backing_device:
        demo.guest.run(["umount", BACKING_MOUNT])
    else:
        demo.guest.run(["rm", "-f", demo.backing_file])
    return "ended by SIGTERM, status 0"


STEPS: list[tuple[str, Callable[[Demo], str]]] = [
    ("make the backing storage", prepare_backing),
    ("start wss-target", start_target),
    ("load wss.ko", load_driver),
    ("show the block device", show_device),
    ("fio with verify=crc32c", verify_with_fio),
    ("4 KiB random reads", lambda demo: measure(demo, "read", "randread", "4k", 16)),
    ("4 KiB random writes", lambda demo: measure(demo, "write", "randwrite", "4k", 16)),
    ("128 KiB sequential reads", lambda demo: measure(demo, "stream", "read", "128k", 8)),
    ("ext4 on it", use_a_file_system),
    ("count the RDMAs of the target", count_rdma),
    ("unload wss.ko", unload),
    ("stop wss-target", stop_target),
    *kv_steps.steps(operations=300),
    ("the same natively, over shm", lambda demo: kv_steps.natively()),
]
