# SPDX-License-Identifier: Apache-2.0
"""The kernel that a benchmark's machine boots, and the driver that is built for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.lab.errors import LabError
from tests.lab.kernel import KERNEL_SCRIPTS, Kernel, choose_kernel, fetched_kernel

KERNELS = {"installed": "the newest installed kernel", "newer": "the kernel of Debian's backports, fetched once",
           "newest": "the kernel of Debian's current stable release and its backports, fetched once"}

FETCHED = ("newer", "newest")


def kernel_named(which: str) -> Kernel:
    return fetched_kernel(which) if which in FETCHED else choose_kernel()


def module_for(kernel: Kernel | None, which: str, build: Path, module: Path | None) -> Path:
    """Returns `module`, or by default the driver of the build. For a fetched kernel, builds the driver in its own
    directory."""
    if which in FETCHED:
        return _built_for(kernel, build / f"{which}-kernel")
    found = (module or build / "kernel/wss.ko").resolve()
    if not found.exists():
        raise LabError(f"{found} does not exist: make modules BUILD={build}")
    return found


def _built_for(kernel: Kernel, build: Path) -> Path:
    made = subprocess.run([str(KERNEL_SCRIPTS / "modules"), str(kernel.modules_root), str(build)], stdout=sys.stderr, check=False)
    if made.returncode != 0:
        raise LabError(f"the driver could not be built for {kernel.release}")
    return build / "kernel/wss.ko"
