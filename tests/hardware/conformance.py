# SPDX-License-Identifier: Apache-2.0
"""The rules of the fabric (lib/fabric/fabric.h) over the devices themselves."""

from __future__ import annotations

import re

from tests.hardware.kit import Failed, Kit, is_rxe, port_with
from tests.hardware.machine import Machine
from tests.hardware.part import Part

LIMIT = 1200
# These tests need a host name with two addresses in /etc/hosts, which the kit does not change.
NEED_HOSTS = ("a_connection_tries_every_address_of_a_name", "a_fabric_can_be_opened_by_host_name", "connecting_to_a_name_where_nobody_listens_is_refused_in_time")
# rxe completes a WRITE or READ before its poster can check it, so a region cannot be revoked during it (tests/system/test_fabric_verbs.py).
NOT_ON_RXE = ("*F4_a_region_revoked_during_writes_is_not_written_again*", "*F4_revoking_a_region_ends_the_reads_in_flight*")

QUICK = "Fabric/WithAccessRights.*:*.F1_*:*.F6_*"  # access rights, order, lost peers


def pattern(kit: Kit, machine: Machine, address: str) -> str:
    if kit.scheme != "rdma":
        return f"*/{kit.scheme}*"
    left_out = [*(f"VerbsNames.{name}" for name in NEED_HOSTS), *(NOT_ON_RXE if is_rxe(port_with(machine, address)[0]) else ())]
    return f"{QUICK if kit.quick else '*/verbs*:Verbs*'}-{':'.join(left_out)}"


def conformance(kit: Kit) -> str:
    """Runs the conformance tests of the fabric on each machine over its own device: order, access rights, revoked regions, closing, limits,
    lost peers."""
    kit.need_network()
    kit.need_conformance_tests()
    counts = []
    for machine, address in kit.ends:
        chosen = pattern(kit, machine, address)
        result = machine.run(["conformance_tests", "--gtest_brief=1", f"--gtest_filter={chosen}"], LIMIT, check=False,
                             env={"WSS_TEST_RDMA": kit.uri(address, 0).removesuffix(":0"), "WSS_TEST_CYCLES": "20" if kit.quick else "1000"})  # fmt: skip
        failed = re.findall(r"^\[  FAILED  \] (\S+?),? ", result.stdout, re.M)
        passed = re.search(r"PASSED +\] (\d+) test", result.stdout)
        if result.status != 0 or not passed or int(passed[1]) == 0:
            raise Failed(f"{machine.name}, {address}: conformance_tests exited with status {result.status}; failed tests: "
                         f"{', '.join(dict.fromkeys(failed)) or 'none'}. Its log has the reasons")  # fmt: skip
        counts.append(f"{passed[1]} tests over {address}")
        kit.note(f"{machine.name}: conformance_tests --gtest_filter='{chosen}'")
    return ", ".join(counts)


PARTS = (Part("conformance", "rules of the fabric", conformance),)
