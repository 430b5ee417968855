# SPDX-License-Identifier: Apache-2.0
"""tls:// with --tls-kernel, in a machine whose kernel has the module `tls`: the kernel encrypts what the target sends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.lab.vm import Vm
from tests.system.block_setup import RUN

PORT = 5571
CONTROL = f"{RUN}/kernel-tls.sock"
SECRET = "alice:correct-horse-battery-staple"
DATA = "what nobody else may read: "
# Writes 1 MiB of the sentence to the volume and compares what the volume returns with it.
COPY = f"""yes '{DATA}' | tr -d '\\n' | head -c 1M > {RUN}/data
qemu-img convert -n -f raw -O raw {RUN}/data "$1"
qemu-img compare -f raw -F raw {RUN}/data "$1"
"""
# Prints a line when it records. Ends at the end of its standard input, with the number of frames that it lost.
CAPTURE = f"""import socket, sys, threading
lo = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
lo.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)  # SO_RCVBUFFORCE
lo.bind(("lo", 0))
lo.settimeout(0.5)
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
print("recording", flush=True)
with open("{RUN}/capture", "wb") as capture:
    while True:
        try:
            capture.write(lo.recv(1 << 17))
        except TimeoutError:
            if over.is_set():
                break
print("lost", int.from_bytes(lo.getsockopt(263, 6, 8)[4:8], "little"))  # SOL_PACKET, PACKET_STATISTICS
"""


def use(vm: Vm, words: str, script: str) -> None:
    """Runs a script against nbdkit. The URI of the volume is its argument."""
    vm.write(f"{RUN}/script", script)
    vm.run(f"nbdkit -U - $BUILD/nbdkit-wss-plugin.so {words} --run 'sh -e {RUN}/script \"$uri\"'", timeout=120)


def tls_counters(vm: Vm) -> dict[str, int]:
    return json.loads(vm.run(f"wssctl --control {CONTROL} --json stats --target").stdout)["target"]["tls"]


def kernel_senders(vm: Vm) -> int:
    """Returns how often a socket of the machine was given a key for what it sends."""
    return int(vm.run("awk '$1 == \"TlsTxSw\" { print $2 }' /proc/net/tls_stat").stdout)


@contextmanager
def target(vm: Vm, scheme: str, more: str) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yields the words that connect an nbdkit to a target on the loopback interface, and a function that returns its log."""
    vm.run(f"mkdir -p {RUN} && install -m 600 /dev/null {RUN}/alice && echo {SECRET} > {RUN}/alice && truncate -s 1M {RUN}/volume")
    process = vm.start(f"exec wss-target --listen {scheme}://127.0.0.1:{PORT} --volume disk=aio:{RUN}/volume --reactors 1 "
                       f"--control {CONTROL} --secrets {RUN}/alice {more}")
    try:
        process.wait_for("ready on", 60)
        yield f"target={scheme}://127.0.0.1:{PORT} volume=disk secret-file={RUN}/alice", lambda: process.stderr
        assert process.stop(60).status == 0, process.stderr
    finally:
        process.kill()


@contextmanager
def recorded(vm: Vm) -> Iterator[None]:
    """Records all frames of the loopback interface to RUN/capture."""
    vm.write(f"{RUN}/capture.py", CAPTURE)
    process = vm.start(["python3", f"{RUN}/capture.py"])
    process.wait_for("recording")
    yield
    process.write(b"")
    assert "lost 0" in process.wait().stdout


@pytest.mark.parametrize("scheme, more, kernel", [("tcp", "", False), ("tls", "", False), ("tls", "--tls-kernel", True)])
def test_network_recording_contains_the_data_of_a_volume_only_without_tls(vm: Vm, scheme: str, more: str, kernel: bool) -> None:
    vm.run(f"modprobe tls && mkdir -p {RUN}")
    before = kernel_senders(vm)
    with target(vm, scheme, more) as (words, _):
        with recorded(vm):
            use(vm, words, COPY)
        counters = tls_counters(vm)
    assert vm.run(f"cmp {RUN}/data {RUN}/volume", check=False).status == 0
    assert int(vm.run(f"stat -c %s {RUN}/capture").stdout) > 2 << 20
    found = vm.run(f"grep -c -a -F '{DATA}' {RUN}/capture", check=False).status == 0
    assert found == (scheme == "tcp")
    assert (kernel_senders(vm) > before) == kernel
    assert counters["kernel_sends"] == (counters["handshakes"] if kernel else 0)


def test_target_encrypts_in_user_space_and_reports_it_if_the_kernel_cannot(vm: Vm) -> None:
    vm.run("modprobe -r tls && echo /bin/false > /proc/sys/kernel/modprobe")
    try:
        with target(vm, "tls", "--tls-kernel") as (words, log):
            use(vm, words, 'qemu-io -f raw -c "write -P 7 0 64k" -c "read -P 7 0 64k" "$1"')
            counters = tls_counters(vm)
    finally:
        vm.run("echo /sbin/modprobe > /proc/sys/kernel/modprobe")
    assert "run 'modprobe tls' before the start" in log()
    assert counters["handshakes"] > 0 and counters["kernel_sends"] == 0
