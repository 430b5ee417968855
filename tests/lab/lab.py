# SPDX-License-Identifier: Apache-2.0
"""A lab: one or several machines of one run, brought up together and always taken down together.

    with Lab(vms=2) as lab:
        lab.vms[0].run("ib_devinfo")
"""

from __future__ import annotations

from types import TracebackType
from typing import Callable

from tests.lab import paths
from tests.lab.errors import LabError
from tests.lab.kernel import choose_kernel
from tests.lab.probe import accelerator_for
from tests.lab.vm import Shape, Vm

VMS_MAX = 16


class Lab:
    def __init__(self, vms: int = 1, shape: Shape = Shape(), say: Callable[[str], None] = lambda _: None) -> None:
        if not 1 <= vms <= VMS_MAX:
            raise LabError(f"{vms} machines: the lab has 1 to {VMS_MAX}")
        self.kernel = choose_kernel()
        answer = accelerator_for(self.kernel)
        self.run_directory = paths.new_run_directory()
        self.share = self.run_directory / "share"  # /lab in every machine
        self._say = say
        self.vms = [Vm(index, shape, self.kernel, answer.accelerator, self.run_directory) for index in range(vms)]

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
        """Start all machines at the same time and wait for them."""
        for vm in self.vms:
            vm.power_on()
        for vm in self.vms:
            vm.wait_ready()
            self._say(f"{vm.name}: {vm.kernel.release} by {vm.accelerator}, up in {vm.boot_seconds:.1f} s")

    def check_klog(self) -> None:
        for vm in self.vms:
            vm.check_klog()

    def close(self) -> None:
        """Everything off and away but the logs. Safe to call twice."""
        for vm in self.vms:
            vm.power_cut()
            for disk in vm.disks:
                disk.remove()
