# SPDX-License-Identifier: Apache-2.0
"""I/O whose data is verified: a RAM volume, a cache, the key-value store, the driver."""

from __future__ import annotations

from contextlib import ExitStack

from tests.hardware.holders import driver
from tests.hardware.kit import Failed, Kit
from tests.hardware.machine import Machine
from tests.hardware.part import Part
from tests.hardware.programs import MIB, Server, Target, fio_job, fio_words, nbd, verify
from tests.lab.guest import wait_until
from tests.system.kv_store import Store

FIO_LIMIT = 600
MODES = {
    "messages": ["--algorithm", "ramp-fast"],
    "one-sided reads": ["--one-sided", "on"],
    "one-sided reads and rings": ["--one-sided", "on", "--transport", "ring"],
}


def mib_of(kit: Kit) -> int:
    return 8 if kit.quick else 256


def need_fio(kit: Kit) -> None:
    kit.need_network()
    kit.need_tools(kit.client, nbdkit="nbdkit", fio="fio")


def ram_volume(kit: Kit) -> str:
    """Writes a RAM volume of the target at random through libwss (nbdkit, fio with checksums) and reads all of it back."""
    need_fio(kit)
    mib = mib_of(kit)
    with Target(kit, {"v": f"ram:{mib}M"}) as target, nbd(kit, target.uri, "v") as uri:
        return verify(kit, uri, mib, FIO_LIMIT)


class Engine(Server):
    """wss-cache on a machine, joined to the target."""

    def __init__(self, kit: Kit, machine: Machine, address: str, join: str, memory_mib: int) -> None:
        uri = kit.uri(address, kit.port())
        super().__init__(machine, ["wss-cache", "--join", join, "--listen", uri, "--memory", f"{memory_mib}M"], uri)


def live_engines(target: Target) -> list[dict]:
    return [one for one in target.ask("cache", "status")["engines"] if one["state"] == "live"]


def cache(kit: Kit) -> str:
    """Starts a target with a volume in a file and two cache engines, one on each machine. Writes and verifies through them, until reads
    come from the engines by RDMA and not from the target."""
    need_fio(kit)
    mib = mib_of(kit)
    join = kit.uri(kit.target_address, kit.port())
    places = [(kit.target, kit.target_address), (kit.client, kit.client_address)]
    with ExitStack() as stack:
        target = stack.enter_context(Target(kit, {"v": f"aio:{kit.target.directory}/cached.img,size={mib}M,create"}, "--cache-listen", join))
        for machine, address in places:
            stack.enter_context(Engine(kit, machine, address, join, mib + 64))
        wait_until(lambda: len(live_engines(target)) == len(places), "both cache engines have joined the target", 120, 0.2)
        uri = stack.enter_context(nbd(kit, target.uri, "v"))
        written = verify(kit, uri, mib, FIO_LIMIT)
        from_engines = read_from_engines(kit, target, uri, mib)
    return f"{written}; a later pass read {from_engines} MiB from the engines"


def read_from_engines(kit: Kit, target: Target, uri: str, mib: int) -> int:
    """Verifies again until a pass reads from the engines, as fills may continue after the responses. Returns the MiB."""

    def bypassed() -> int:
        return target.ask("cache", "status")["volumes"][0]["counters"]["out_of_band_read_bytes"]

    wait_until(lambda: any(engine["clients"] > 0 for engine in live_engines(target)), "libwss is connected to a cache engine", 120, 0.2)
    for _ in range(5):
        before = bypassed()
        fio_job(kit.client.start(fio_words(uri, rw="randread", bs="64k", iodepth=8, size=f"{mib}m")), FIO_LIMIT)
        if bypassed() > before:
            return (bypassed() - before) // MIB
    raise Failed("after five passes no byte came from the cache engines: `wssctl cache status` of the target is in the logs")


def key_value_store(kit: Kit) -> str:
    """Starts three partitions of the key-value store on the target machine. Two clients read and write the same keys with one-sided reads,
    over rings and by messages, and each result is checked."""
    kit.need_network()
    transactions = 200 if kit.quick else 5000
    counted = {}
    with Store(kit.target, kit.client, kit.scheme, [kit.port() for _ in range(3)]) as store:
        for number, (name, modes) in enumerate(MODES.items()):
            if number == 0:
                store.load(modes)
            results = store.verified(modes, transactions, 900)
            check_results(name, modes, results)
            counted[name] = sum(result["operations"] for result in results)
    return "no violation in " + ", ".join(f"{count} transactions by {name}" for name, count in counted.items())


def check_results(name: str, modes: list[str], results: list[dict]) -> None:
    for result in results:
        check = result["CHECK"]
        if check["Violations"] or check["FracturedReads"] or result["failed"] or not check["Reads"] or not check["Writes"]:
            raise Failed(f"{name}: {check}, {result['failed']} failed transactions; no violation and no failure was expected")
        if "--one-sided" in modes and result["KV"]["OneSidedReads"] == 0:
            raise Failed(f"{name}: no read was one-sided")


def block_device(kit: Kit) -> str:
    """Loads wss.ko on the client, maps a RAM volume, and verifies I/O on the block device. A fault of the driver can crash the machine."""
    kit.need_rdma()
    kit.need_tools(kit.client, fio="fio")
    mib = mib_of(kit)
    with Target(kit, {"v": f"ram:{mib}M"}) as target, driver(kit, target.uri, "v") as device:
        return verify(kit, device, mib, FIO_LIMIT)


PARTS = (
    Part("io-ram", "verified I/O on a RAM volume", ram_volume),
    Part("io-cache", "verified I/O through cache engines", cache),
    Part("io-kv", "the key-value store, one-sided", key_value_store),
    Part("io-driver", "verified I/O through the driver", block_device, option="driver"),
)
