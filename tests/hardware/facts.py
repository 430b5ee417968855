# SPDX-License-Identifier: Apache-2.0
"""Collects what a machine and its RDMA devices are, from sysfs and procfs. Runs on the machine as a program of its own and prints
one JSON object. Needs no rights."""

import glob
import ipaddress
import json
import os
import platform
import resource
import shutil
import subprocess

TOOLS = ("ibv_devinfo", "rdma", "ip", "ethtool", "lspci", "fio", "nbdkit", "ib_read_lat", "ib_read_bw", "ib_write_bw", "nvme", "prlimit", "setpriv",
         "modprobe", "stdbuf")
MODULES = ("nvmet_rdma", "nvme_rdma", "brd")
CAPS = ("fw_ver", "hca_type", "board_id", "node_type")


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def link(path):
    """Returns the last part of a symbolic link's target."""
    try:
        return os.path.basename(os.readlink(path))
    except OSError:
        return ""


def json_of(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        return json.loads(done.stdout or "[]")
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []


def addresses_of(netdev):
    """Returns the addresses of a network device with their prefix lengths, IPv4 first, without link-local ones."""
    found = [f"{one['local']}/{one['prefixlen']}" for card in json_of("ip", "-j", "address", "show", "dev", netdev)
             for one in card.get("addr_info", ()) if "local" in one]  # fmt: skip
    known = [one for one in found if not ipaddress.ip_interface(one).is_link_local]
    return sorted(known, key=lambda one: ipaddress.ip_interface(one).version)


def netdevs_of(device, port):
    """Returns the network devices of a port: those of its GIDs (RoCE, iWARP), else those of the same card (IP over InfiniBand)."""
    found = {read(path) for path in glob.glob(f"/sys/class/infiniband/{device}/ports/{port}/gid_attrs/ndevs/*")} - {""}
    if not found:
        cards = glob.glob(f"/sys/class/net/*/device/infiniband/{device}")
        found = {path.split("/")[4] for path in cards if port_of(path.split("/")[4]) in (port, "")}
    return sorted(found)


def port_of(netdev):
    number = read(f"/sys/class/net/{netdev}/dev_port")
    return str(int(number) + 1) if number.isdigit() else ""


def netdev(name):
    return {"name": name, "mtu": read(f"/sys/class/net/{name}/mtu"), "driver": link(f"/sys/class/net/{name}/device/driver"),
            "addresses": addresses_of(name)}  # fmt: skip


def gids_of(base):
    found = []
    for path in sorted(glob.glob(f"{base}/gids/*"), key=lambda one: int(one.rsplit("/", 1)[1])):
        gid, index = read(path), path.rsplit("/", 1)[1]
        if gid.strip("0:"):
            found.append({"index": int(index), "gid": gid, "type": read(f"{base}/gid_attrs/types/{index}")})
    return found


def port(device, number):
    base = f"/sys/class/infiniband/{device}/ports/{number}"
    words = {name: read(f"{base}/{name}") for name in ("state", "phys_state", "link_layer", "rate")}
    return {"port": number, **words, "netdevs": [netdev(name) for name in netdevs_of(device, number)], "gids": gids_of(base)}


def device(name):
    base = f"/sys/class/infiniband/{name}"
    card = os.path.realpath(f"{base}/device")
    on_bus = os.path.exists(f"{base}/device")
    return {"device": name, **{cap: read(f"{base}/{cap}") for cap in CAPS}, "driver": link(f"{base}/device/driver"),
            "pci": os.path.basename(card) if on_bus else "", "numa_node": read(f"{base}/device/numa_node"),
            "link_speed": read(f"{base}/device/current_link_speed"), "link_width": read(f"{base}/device/current_link_width"),
            "ports": [port(name, number) for number in sorted(os.listdir(f"{base}/ports"))]}  # fmt: skip


def memlock():
    return [limit if limit != resource.RLIM_INFINITY else "unlimited" for limit in resource.getrlimit(resource.RLIMIT_MEMLOCK)]


def may_lock():
    """Returns whether no limit of locked memory applies (CAP_IPC_LOCK)."""
    mask = next((line.split()[1] for line in read("/proc/self/status").splitlines() if line.startswith("CapEff")), "0")
    return bool(int(mask, 16) >> 14 & 1)


def has_module(name):
    if os.path.isdir(f"/sys/module/{name}"):
        return True
    wanted = name.replace("_", "-")
    return any(f"/{one}.ko" in read(f"/lib/modules/{os.uname().release}/modules.dep") for one in (name, wanted))


def session_netdev():
    """Returns the network device of the ssh session, which must stay up. The kit's agent, the parent, knows the peer."""
    known = dict(one.split("=", 1) for one in read(f"/proc/{os.getppid()}/environ").split("\0") if "=" in one)
    peer = known.get("SSH_CONNECTION", "").split(" ")[0]
    routes = json_of("ip", "-j", "route", "get", peer) if peer else []
    return routes[0].get("dev", "") if routes else ""


def reads_kernel_log():
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
        return True
    except OSError:
        return False


def processor():
    for line in read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def memory_mib():
    for line in read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) // 1024
    return 0


def facts():
    release = dict(line.split("=", 1) for line in read("/etc/os-release").splitlines() if "=" in line)
    devices = sorted(os.listdir("/sys/class/infiniband")) if os.path.isdir("/sys/class/infiniband") else []
    return {
        "host": os.uname().nodename,
        "uid": os.getuid(),
        "kernel": os.uname().release,
        "system": release.get("PRETTY_NAME", "").strip('"'),
        "processor": processor(),
        "processors": os.cpu_count(),
        "numa_nodes": len(glob.glob("/sys/devices/system/node/node[0-9]*")),
        "memory_available_mib": memory_mib(),
        "memlock": memlock(),
        "may_lock": may_lock(),
        "reads_kernel_log": reads_kernel_log(),
        "rdma_cm": os.path.exists("/dev/infiniband/rdma_cm"),
        "devices": [device(name) for name in devices],
        "tools": {name: shutil.which(name) is not None for name in TOOLS},
        "modules": {name: has_module(name) for name in MODULES},
        "loaded": {name: os.path.isdir(f"/sys/module/{name}") for name in (*MODULES, "wss")},
        "session_netdev": session_netdev(),
    }


if __name__ == "__main__":
    print(json.dumps(facts()))
