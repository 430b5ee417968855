# SPDX-License-Identifier: Apache-2.0
"""Tests the verbs fabric on soft RDMA: the conformance suite, and tests of lost connections, which need
separate machines."""

import re

from tests.lab.lab import Lab
from tests.lab.vm import Vm

PROGRAM = "$BUILD/conformance_tests"

# In the cases below, soft RoCE of kernel 6.1 differs from a hardware device. A WRITE or READ completes before
# its poster can check it, so a region cannot be revoked during it. A READ whose region is removed during the
# transfer gets no response.
NOT_ON_SOFT_ROCE = (
    "*F4_a_region_revoked_during_writes_is_not_written_again*",
    "*F4_revoking_a_region_ends_the_reads_in_flight*",
)


def role(vm: Vm, name: str, server: Vm):
    """Starts one end of a connection (tests/conformance/verbs_roles.cc)."""
    return vm.start(PROGRAM, env={"WSS_TEST_RDMA_ROLE": name, "WSS_TEST_RDMA": f"rdma://{server.address}:4711"})


def connected(client_vm: Vm, name: str, server_vm: Vm):
    server = role(server_vm, "serve", server_vm)
    server.wait_for("listening")
    client = role(client_vm, name, server_vm)
    server.wait_for("ready")
    client.wait_for("ready")
    return client, server


def test_verbs_passes_the_conformance_suite(vm: Vm) -> None:
    skipped = ":".join(NOT_ON_SOFT_ROCE)
    # VerbsNames needs a name whose first address belongs to no host.
    vm.run(f"grep -q two-addresses /etc/hosts || printf '10.87.0.99 two-addresses.test\\n{vm.address} two-addresses.test\\n' >>/etc/hosts")
    result = vm.run(
        f"{PROGRAM} --gtest_brief=1 --gtest_filter='*/verbs*:Verbs*-{skipped}'",
        env={"WSS_TEST_RDMA": f"rdma://{vm.address}"},
        timeout=420,
    )
    passed = re.search(r"PASSED +\] (\d+) tests", result.stdout)
    assert passed and int(passed[1]) > 60, result.stdout


def test_verbs_detects_a_peer_whose_link_is_cut(pair: Lab) -> None:
    first, second = pair.vms
    client, server = connected(first, "send", second)
    pair.cut_link(second)
    closed = client.wait_for("closed: .*", timeout=60)
    assert "does not answer" in closed[0], closed[0]
    pair.restore_link(second)
    server.kill()
    # The address must be free again for the next test.
    client, server = connected(first, "idle", second)
    client.kill()
    server.wait_for("closed: .*the peer closed")


def test_verbs_detects_a_killed_peer_process(pair: Lab) -> None:
    first, second = pair.vms
    client, server = connected(first, "idle", second)
    server.kill()
    client.wait_for("closed: ", timeout=20)


def test_target_reports_an_error_of_its_rdma_port(make_lab) -> None:
    vm = make_lab().vms[0]
    target = vm.start(f"wss-target --auth-off --listen rdma://{vm.address}:5555 --volume v=ram:1M")
    target.wait_for("ready on", 60)
    vm.run("ip link set eth0 down")
    target.wait_for("port 1 is down", timeout=30)


def test_verbs_allows_the_removal_of_its_device(make_lab) -> None:
    vm = make_lab().vms[0]
    client, server = connected(vm, "idle", vm)
    vm.run("rdma link delete rxe0", timeout=30)
    ends = [end.wait(30) for end in (client, server)]
    # The end that is notified first closes the connection, so the other end may report the close instead.
    assert any("closed: " in end.stdout and "device is being removed" in end.stdout for end in ends), ends
    assert all(end.status == 0 and "closed: " in end.stdout for end in ends), ends
    refused = vm.run(PROGRAM, env={"WSS_TEST_RDMA_ROLE": "idle", "WSS_TEST_RDMA": f"rdma://{vm.address}"}, check=False)
    assert refused.status == 1
    assert "no RDMA device" in refused.stdout and "rdma link add" in refused.stdout, refused.stdout
