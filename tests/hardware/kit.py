# SPDX-License-Identifier: Apache-2.0
"""What all parts of a run share: the machines, their addresses, the options, and the place for results."""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from tests.hardware.machine import Logs, Machine, local_command, remote_command
from tests.lab.errors import LabError

FACTS = Path(__file__).with_name("facts.py")
FIRST_PORT = 5750  # of the kit's own servers
THIS_MACHINE = "local"
CONFORMANCE = "conformance_tests"


class NotRun(Exception):
    """A part cannot run here. The message is the reason, and what would let it run."""


class Failed(Exception):
    """A part has failed. The message names the failure, its object, and what was expected."""


@dataclass
class Outcome:
    """The result of a part: ok, failed or not run."""

    name: str
    title: str
    state: str
    text: str  # what was verified, or why it failed or did not run
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


class Kit:
    def __init__(self, options: argparse.Namespace, logs: Logs) -> None:
        self.options = options
        self.quick: bool = options.quick
        self.scheme: str = options.scheme
        self.build: Path = options.build
        self.logs = logs
        self.measures: list[dict] = []
        self.notes: list[str] = []  # of the current part
        self._target: Machine | None = None
        self._client: Machine | None = None
        self._ports = itertools.count(options.port)

    # ---- machines

    def connect(self) -> None:
        """Connects to the machines and chooses the addresses of their RDMA devices."""
        if self.options.local:
            self._target = self._client = self._machine("host", local_command)
        else:
            self._target = self._machine("target", self._command_for(self.options.target))
            self._client = self._machine("client", self._command_for(self.options.client))
        for machine in self.machines:
            machine.facts = json.loads(machine.run(["python3", "-Bc", FACTS.read_text()]).stdout)
        self._choose_addresses()

    def _command_for(self, host: str) -> Callable[[str], list[str]]:
        return local_command if host == THIS_MACHINE else remote_command(self.options.ssh, host)

    def _machine(self, name: str, command: Callable[[str], list[str]]) -> Machine:
        machine = Machine(name, command, self.logs, self.options.directory)
        machine.set_environment()
        return machine

    def _choose_addresses(self) -> None:
        if self.options.local:
            self.target_address = self.options.target
            self.client_address = self.options.client or self.options.target
        else:
            pair = chosen_pair(self.target.facts, self.client.facts)
            self.target_address = self.options.target_address or pair[0]
            self.client_address = self.options.client_address or pair[1]
        self.target.address, self.client.address = self.target_address, self.client_address
        for machine in self.machines:
            machine.set_environment()

    @property
    def target(self) -> Machine:
        return self._known(self._target)

    @property
    def client(self) -> Machine:
        return self._known(self._client)

    @staticmethod
    def _known(machine: Machine | None) -> Machine:
        if machine is None:
            raise NotRun("there is no connection to the machines: see the first part")
        if not machine.running:
            raise NotRun(f"the connection to {machine.name} was lost in an earlier part")
        return machine

    @property
    def machines(self) -> list[Machine]:
        """Returns the connected machines, each once."""
        return list(dict.fromkeys(one for one in (self._target, self._client) if one is not None))

    @property
    def ends(self) -> list[tuple[Machine, str]]:
        """Returns the machine and the address of each RDMA port under test, each once."""
        return list(dict.fromkeys(((self.target, self.target_address), (self.client, self.client_address))))

    def close(self) -> None:
        for machine in reversed(self.machines):
            with contextlib.suppress(LabError, OSError):
                machine.close()

    # ---- what parts need

    def need_machines(self) -> None:
        for machine in (self._target, self._client):
            self._known(machine)

    def uri(self, address: str, port: int) -> str:
        return f"{self.scheme}://{address}:{port}"

    def port(self) -> int:
        return next(self._ports)

    def need_rdma(self) -> None:
        if self.scheme != "rdma":
            raise NotRun(f"it needs RDMA, and this run uses {self.scheme}")
        for machine, address in self.ends:
            if not machine.facts["devices"]:
                raise NotRun(f"{machine.name} has no RDMA device: `rdma link` on it must list one")
            if not address:
                raise NotRun(f"{machine.name}: no RDMA device has an IP address; assign one, or give TARGET_ADDRESS and CLIENT_ADDRESS")

    def need_network(self) -> None:
        if self.scheme == "rdma":
            self.need_rdma()

    @staticmethod
    def need_tools(machine: Machine, **packages: str) -> None:
        """Each keyword is a program, and its value is the Debian package that has it."""
        missing = {package for name, package in packages.items() if not machine.facts["tools"].get(name)}
        if missing:
            raise NotRun(f"{machine.name} lacks {', '.join(sorted(missing))}: apt install {' '.join(sorted(missing))}")

    def need_conformance_tests(self) -> None:
        if not (self.build / CONFORMANCE).exists():
            raise NotRun(f"{CONFORMANCE} was not built: make {self.build}/{CONFORMANCE}")

    @staticmethod
    def need_root(machine: Machine, why: str) -> None:
        if not machine.is_root:
            raise NotRun(f"{why} needs root on {machine.name}")

    # ---- results

    def note(self, text: str) -> None:
        """Adds a line to the current part of the report."""
        self.notes.append(text)

    def measured(self, system: str, operation: str, size: int, depth: int | None, **values: float) -> None:
        """Adds a measurement. `values`: iops, mb_per_s, latency_us, p99_us."""
        self.measures.append({"system": system, "operation": operation, "bytes": size, "depth": depth,
                              **{name: round(value, 3) for name, value in values.items()}})  # fmt: skip


def is_rxe(device: dict) -> bool:
    """Returns whether a device is soft RoCE: only drivers of adapters report a type, and soft iWARP has another type of node."""
    return not device["hca_type"] and device["node_type"].startswith("1")


def port_with(machine: Machine, address: str) -> tuple[dict, dict, str]:
    """Returns the device, the port and the name of the network device that have an address."""
    bare = address.strip("[]")
    for device in machine.facts["devices"]:
        for port in device["ports"]:
            for netdev in port["netdevs"]:
                if any(one.split("/")[0] == bare for one in netdev["addresses"]):
                    return device, port, netdev["name"]
    raise NotRun(f"{machine.name}: no RDMA device has the address {address}")


def addresses_of(facts: dict) -> list[ipaddress.IPv4Interface | ipaddress.IPv6Interface]:
    """Returns the addresses of all RDMA ports, those of active ports first."""
    ports = [port for device in facts["devices"] for port in device["ports"]]
    ports.sort(key=lambda port: "ACTIVE" not in port["state"])
    return [ipaddress.ip_interface(one) for port in ports for netdev in port["netdevs"] for one in netdev["addresses"]]


def chosen_pair(target: dict, client: dict) -> tuple[str, str]:
    """Returns an address of each machine: two of the same network if there are any, else the first of each, or "" without any."""
    ours, theirs = addresses_of(target), addresses_of(client)
    for one in ours:
        for other in theirs:
            if one.network == other.network:
                return text_of(one), text_of(other)
    return text_of(ours[0]) if ours else "", text_of(theirs[0]) if theirs else ""


def text_of(address: ipaddress.IPv4Interface | ipaddress.IPv6Interface) -> str:
    """Returns an address as it is written in a URI."""
    return f"[{address.ip}]" if address.version == 6 else str(address.ip)
