# SPDX-License-Identifier: Apache-2.0
"""pytest fixtures of the lab; tests/system/conftest.py imports them all.

    vm         a machine shared by all tests that request it (2 processors, one NVMe disk of 2 GiB, soft RDMA)
    pair       two machines on one segment, shared in the same way
    make_lab   a function that creates a lab of any shape for one test

After each test the kernel logs of its machines are checked. A test that provokes a complaint permits it with
`vm.klog.allow(pattern, reason)`. A shared machine that a test has killed or damaged is booted again for the next test.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.lab.errors import GuestDied, LabError
from tests.lab.lab import Lab
from tests.lab.leaks import check_leaks
from tests.lab.vm import Shape, Vm

SHARED_SHAPE = Shape(cpus=2, memory_mib=2048, nvme_sizes=(2 << 30,))
PAIR_SHAPE = Shape(cpus=1, memory_mib=1024, nvme_sizes=(1 << 30,))
KLOG_LINES_SHOWN = 40

LABS_OF_TEST = pytest.StashKey[list[Lab]]()


class SharedLab:
    """A lab that later tests use again as long as it is intact."""

    def __init__(self, vms: int, shape: Shape, say: Callable[[str], None]) -> None:
        self._make = lambda: Lab(vms, shape, say)
        self._lab: Lab | None = None
        self._marks: list[int] = []

    def acquire(self) -> Lab:
        if self._lab and not all(vm.running for vm in self._lab.vms):
            self.discard()
        if self._lab is None:
            self._lab = self._make().__enter__()
        self._marks = [vm.klog.mark() for vm in self._lab.vms]
        return self._lab

    def release(self) -> None:
        """Checks what the kernels have logged since acquire()."""
        assert self._lab is not None
        try:
            for vm, mark in zip(self._lab.vms, self._marks):
                vm.check_klog(mark)
        except LabError:
            self.discard()
            raise

    def finish(self) -> None:
        """Runs checks that need an idle kernel, after the last test."""
        try:
            for vm in self._lab.vms if self._lab else ():
                if vm.running:
                    check_leaks(vm)
        finally:
            self.discard()

    def discard(self) -> None:
        if self._lab:
            self._lab.close()
            self._lab = None


@pytest.fixture(scope="session")
def lab_say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Prints a line despite pytest's capture, because the time of each boot is always shown."""
    capture = request.config.pluginmanager.get_plugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\nlab: {text} ", end="", flush=True)

    return say


@pytest.fixture(scope="session")
def shared_single(lab_say: Callable[[str], None]) -> Iterator[SharedLab]:
    shared = SharedLab(1, SHARED_SHAPE, lab_say)
    yield shared
    shared.finish()


@pytest.fixture(scope="module")  # two machines use too many resources to keep them during tests of other modules
def shared_pair(lab_say: Callable[[str], None]) -> Iterator[SharedLab]:
    shared = SharedLab(2, PAIR_SHAPE, lab_say)
    yield shared
    shared.finish()


@pytest.fixture
def vm(request: pytest.FixtureRequest, shared_single: SharedLab) -> Iterator[Vm]:
    lab = shared_single.acquire()
    request.node.stash.setdefault(LABS_OF_TEST, []).append(lab)
    yield lab.vms[0]
    shared_single.release()


@pytest.fixture
def pair(request: pytest.FixtureRequest, shared_pair: SharedLab) -> Iterator[Lab]:
    lab = shared_pair.acquire()
    request.node.stash.setdefault(LABS_OF_TEST, []).append(lab)
    yield lab
    shared_pair.release()


@pytest.fixture
def make_lab(request: pytest.FixtureRequest, lab_say: Callable[[str], None]) -> Iterator[Callable[..., Lab]]:
    labs = request.node.stash.setdefault(LABS_OF_TEST, [])
    mine: list[Lab] = []

    def make(vms: int = 1, shape: Shape = Shape()) -> Lab:
        lab = Lab(vms, shape, lab_say)
        labs.append(lab)
        lab.__enter__()  # it closes itself if this fails
        mine.append(lab)
        return lab

    try:
        yield make
        for lab in mine:
            for vm in lab.vms:
                # A machine that has crashed or is off cannot report leaks. check_klog() reports a crash.
                with contextlib.suppress(GuestDied):
                    check_leaks(vm)
            lab.check_klog()
    finally:
        for lab in mine:
            lab.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds the end of the machines' kernel logs, and the path of each console, to the report of a failed test."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if not report.failed:
        return
    for lab in item.stash.get(LABS_OF_TEST, []):
        for vm in lab.vms:
            lines = vm.klog.text().splitlines()[-KLOG_LINES_SHOWN:]
            report.sections.append((f"kernel log of {vm.name} ({vm.console_path})", "\n".join(lines)))
