# SPDX-License-Identifier: Apache-2.0
"""Which kernel a benchmark's machine boots, and the driver that is built for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.lab.errors import LabError
from tests.lab.kernel import Kernel, choose_kernel, newer_kernel
from tests.lab.paths import REPOSITORY

KERNELS = {"installed": "the newest one that is installed", "newer": "that of Debian's backports, fetched once"}


def kernel_named(which: str) -> Kernel:
    return newer_kernel() if which == "newer" else choose_kernel()


def module_for(kernel: Kernel | None, which: str, build: Path, module: Path | None) -> Path:
    """The driver of the build, or `module` instead; of a kernel that is not installed, one that is built for it in a directory of its own."""
    if which == "newer":
        return _built_for(kernel, build / "newer-kernel")
    found = (module or build / "kernel/wss.ko").resolve()
    if not found.exists():
        raise LabError(f"{found} is not there: make modules BUILD={build}")
    return found


def _built_for(kernel: Kernel, build: Path) -> Path:
    made = subprocess.run(["make", "-s", "--no-print-directory", "-C", str(REPOSITORY), "modules", f"BUILD={build}", f"KDIR={kernel.modules_root / 'build'}"],
                          stdout=sys.stderr, check=False)  # fmt: skip
    if made.returncode != 0:
        raise LabError(f"the driver could not be built for {kernel.release}")
    return build / "kernel/wss.ko"
