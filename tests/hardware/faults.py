# SPDX-License-Identifier: Apache-2.0
"""Faults that software can cause, under load: killed programs, exceeded limits, a port that goes down."""

from __future__ import annotations

import re
import shlex

from tests.hardware.kit import Failed, Kit, NotRun, port_with
from tests.hardware.machine import Machine
from tests.hardware.part import Part
from tests.hardware.programs import Target, fio_job, fio_words, nbd
from tests.hardware.verifying import FIO_LIMIT, need_fio
from tests.lab.errors import tail
from tests.lab.guest import Process, wait_until

RECONNECT = 300  # seconds during which libwss tries to reconnect
PEER_LIMIT = 60.0  # see "Peers that stop" in hardware.md: 3.8 s, or four times as long
LOCKED = 1 << 20  # bytes; less than a target needs


def load(kit: Kit, uri: str) -> Process:
    seconds = 5 if kit.quick else 20
    return kit.client.start(fio_words(uri, rw="randwrite", bs="16k", iodepth=16, offset="4m", size="4m", time_based=1, runtime=seconds))


def wait_for_writes(target: Target, process: Process) -> None:
    before = target.written()
    wait_until(lambda: not process.running or target.written() > before, "the load writes to the target", 120, 0.2)


AREA = {"bs": "64k", "iodepth": 8, "size": "4m", "verify": "crc32c", "verify_fatal": 1, "randseed": 7}


def survive(kit: Kit, target: Target, fault) -> None:
    """Writes an area, causes the fault under load, and verifies the area. Neither the load nor the check may see an error."""
    with nbd(kit, target.uri, "v", reconnect_timeout=RECONNECT) as uri:
        fio_job(kit.client.start(fio_words(uri, rw="write", do_verify=0, **AREA)), FIO_LIMIT)
        process = load(kit, uri)
        wait_for_writes(target, process)
        if not process.running:
            raise Failed(f"the load ended before the fault:\n{tail(process.stderr)}")
        fault()
        fio_job(process, FIO_LIMIT)
        fio_job(kit.client.start(fio_words(uri, rw="write", verify_only=1, **AREA)), FIO_LIMIT)


def target_killed(kit: Kit) -> str:
    """Kills the target under load and restarts it. The load must continue without an error, and data from before must be intact."""
    need_fio(kit)
    base = kit.target.directory
    rounds = 1 if kit.quick else 5
    with Target(kit, {"v": f"aio:{base}/killed.img,size=16M,create"}, "--state", f"{base}/killed.json") as target:

        def kill_and_restart() -> None:
            target.kill()
            target.start()

        for _ in range(rounds):
            survive(kit, target, kill_and_restart)
    return f"{rounds} times killed and restarted; no I/O failed"


def role(machine: Machine, name: str, uri: str) -> Process:
    """Starts one end of a connection (tests/conformance/verbs_roles.cc)."""
    return machine.start(["conformance_tests"], env={"WSS_TEST_RDMA_ROLE": name, "WSS_TEST_RDMA": uri})


def peer_killed(kit: Kit) -> str:
    """Kills one end of a connection, first the accepting one, then the connecting one. The other end must detect this soon."""
    kit.need_rdma()
    kit.need_conformance_tests()
    for killed in ("server", "client"):
        uri = kit.uri(kit.target_address, kit.port())
        server = role(kit.target, "serve", uri)
        server.wait_for("listening", 60)
        client = role(kit.client, "idle", uri)
        for end in (server, client):
            end.wait_for("ready", 60)
        victim, survivor = (server, client) if killed == "server" else (client, server)
        victim.kill()
        found = survivor.wait_for(r"closed: .*", PEER_LIMIT)
        kit.note(f"killed {killed}: the other end reports \"{found[0]}\"")
    return "both ends detect the loss of the other"


def limits_exceeded(kit: Kit) -> str:
    """Exceeds two limits: locked memory of a target, and the depth of a queue pair. Each must be reported with the limit, and a program within
    the limits must work afterwards."""
    kit.need_rdma()
    kit.need_conformance_tests()
    kit.need_tools(kit.target, prlimit="util-linux", setpriv="util-linux")
    within_memory = ["prlimit", f"--memlock={LOCKED}", *(["setpriv", "--bounding-set=-ipc_lock"] if kit.target.is_root else [])]
    uri = kit.uri(kit.target_address, kit.port())
    refused(kit, kit.target.start([*within_memory, "wss-target", "--listen", uri, "--auth-off", "--control", "", "--volume", "v=ram:64M"]), r"ulimit -l")
    deep = kit.client.run(["conformance_tests", "--gtest_filter=VerbsClose.a_queue_deeper_than_the_device_allows_is_refused"], 120, check=False,
                          env={"WSS_TEST_RDMA": f"rdma://{kit.client_address}"})  # fmt: skip
    if "[  PASSED  ] 1 test" not in deep.stdout:
        raise Failed(f"a queue pair deeper than the device allows was not refused with the limit:\n{tail(deep.stdout + deep.stderr)}")
    with Target(kit, {"v": "ram:16M"}) as target:
        target.ask("ping")
    return "both limits are reported, and a target within the limits works"


def refused(kit: Kit, process: Process, pattern: str) -> None:
    result = process.wait(120)
    said = result.stdout + result.stderr
    found = re.search(f".*{pattern}.*", said)
    if result.status <= 0 or not found:
        raise Failed(f"`{process.name}` exited with status {result.status}; an error with /{pattern}/ was expected:\n{tail(said)}")
    kit.note(found[0].strip())


def port_down(kit: Kit) -> str:
    """Takes the client's RDMA port down under load, for a few seconds (ip link set … down). I/O must continue without an error when it is up
    again. Routes through the port other than its own network may be lost."""
    need_fio(kit)
    machine = kit.client
    kit.need_root(machine, "taking a port down")
    netdev = port_with(machine, kit.client_address)[2]
    if netdev == machine.facts["session_netdev"]:
        raise NotRun(f"the ssh session to {machine.name} uses {netdev}")
    seconds = 5 if kit.quick else 20
    quoted = shlex.quote(netdev)
    # One process, which takes the port up even if the connection of the kit ends.
    script = f"trap 'ip link set {quoted} up' EXIT; trap 'exit 1' TERM INT HUP; ip link set {quoted} down; sleep {seconds} & wait $!"
    with Target(kit, {"v": f"aio:{kit.target.directory}/port.img,size=16M,create"}) as target:
        survive(kit, target, lambda: machine.run(["sh", "-c", script], seconds + 60))
    return f"{netdev} was down for {seconds} s; no I/O failed"


PARTS = (
    Part("fault-target", "a target that is killed and restarted under load", target_killed),
    Part("fault-peer", "a peer that is killed", peer_killed),
    Part("fault-limits", "limits that are exceeded", limits_exceeded),
    Part("fault-port", "a port that goes down and up under load", port_down, option="faults"),
)
