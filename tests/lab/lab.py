# SPDX-License-Identifier: Apache-2.0
"""A lab consists of the machines of one run. They are always started and stopped together.

    with open_lab(vms=2) as lab:
        lab.vms[0].run("ib_devinfo")

With LAB=host in the environment open_lab returns the host instead of virtual machines.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Callable, Sequence

from tests.lab import paths
from tests.lab.errors import LabError
from tests.lab.guest import Guest
from tests.lab.host_guest import HostGuest
from tests.lab.kernel import Kernel, choose_kernel
from tests.lab.network import Segment
from tests.lab.probe import accelerator_for
from tests.lab.vm import Shape, Vm

VMS_MAX = 16
Say = Callable[[str], None]


class HostLab:
    """The host as a lab of one machine."""

    def __init__(self) -> None:
        self.run_directory = paths.new_run_directory()
        self.share = self.run_directory / "share"
        self.vms: Sequence[Guest] = [HostGuest(self.share)]

    def __enter__(self) -> HostLab:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def check_klog(self) -> None:
        self.vms[0].check_klog()

    def shut_down(self) -> None:
        """The host stays up."""

    def close(self) -> None:
        for guest in self.vms:
            assert isinstance(guest, HostGuest)
            guest.close()


class Lab:
    def __init__(self, vms: int = 1, shape: Shape = Shape(), say: Say = lambda _: None, kernel: Kernel | None = None) -> None:
        if not 1 <= vms <= VMS_MAX:
            raise LabError(f"{vms} machines: the lab has 1 to {VMS_MAX}")
        self.kernel = kernel or choose_kernel()
        answer = accelerator_for(self.kernel)
        self.run_directory = paths.new_run_directory()
        self.share = self.run_directory / "share"  # /lab in every machine
        self._say = say
        self.segment = Segment(vms) if vms > 1 else None
        self.vms = [Vm(index, shape, self.kernel, answer.accelerator, self.run_directory) for index in range(vms)]
        for vm in self.vms if self.segment else ():
            vm.network_port = self.segment.cables[vm.index]

    def __enter__(self) -> Lab:
        try:
            self.boot()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def boot(self) -> None:
        """Starts all machines at the same time and waits until they are ready."""
        for vm in self.vms:
            vm.power_on()
        for vm in self.vms:
            vm.wait_ready()
            self._say(f"{vm.name}: {vm.kernel.release} by {vm.accelerator}, up in {vm.boot_seconds:.1f} s")

    def cut_link(self, vm: Vm) -> None:
        """Cuts a machine off from all traffic until restore_link."""
        self._require_segment().cut(vm.index)

    def restore_link(self, vm: Vm) -> None:
        self._require_segment().restore(vm.index)

    def lose_frames(self, share: float, seed: int = 0) -> None:
        """Drops a share of all frames between the machines, chosen at random from the seed. A share of 0 ends
        this."""
        self._require_segment().lose(share, seed)

    def limit_frames(self, mtu: int) -> None:
        """Sets the MTU of the segment, independently of the machines. The segment loses longer frames."""
        self._require_segment().limit(mtu)

    def check_klog(self) -> None:
        for vm in self.vms:
            vm.check_klog()

    def shut_down(self) -> None:
        """Powers all machines off in an orderly way."""
        for vm in self.vms:
            vm.power_off()

    def close(self) -> None:
        """Powers everything off and removes everything except the logs. May be called twice."""
        for vm in self.vms:
            vm.power_cut()
            for disk in vm.disks:
                disk.remove()
        if self.segment:
            self.segment.close()

    def _require_segment(self) -> Segment:
        if self.segment is None:
            raise LabError("one machine alone has no segment to cut: start the lab with vms=2 or more")
        return self.segment


def open_lab(vms: int = 1, shape: Shape = Shape(), say: Say = lambda _: None) -> Lab | HostLab:
    """Returns a lab of virtual machines or, with LAB=host, of this machine. Use it in a `with` statement."""
    place = os.environ.get("LAB") or "vm"
    if place == "vm":
        return Lab(vms, shape, say)
    if place != "host":
        raise LabError(f"LAB={place}: use vm or host")
    if vms != 1 or shape.icount:
        raise LabError("LAB=host is one machine, which cannot count instructions")
    say("commands run on this machine itself (LAB=host)")
    return HostLab()
