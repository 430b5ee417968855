# SPDX-License-Identifier: Apache-2.0
"""The kernel that the machines boot. It is the newest installed one that has modules, a fetched one (newer,
newest), or one that is given by its path."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.lab.errors import LabError
from tests.lab.paths import REPOSITORY

KERNEL_SCRIPTS = REPOSITORY / "tests/lab/kernels"


@dataclass(frozen=True)
class Kernel:
    """A bootable image with its module tree (`modules_root`/lib/modules/`release`). If it is not installed,
    it also has the tree against which modules are built (`modules_root`/build)."""

    release: str
    image: Path
    modules_root: Path = Path("/")

    @property
    def modules(self) -> Path:
        return self.modules_root / "lib/modules" / self.release


def choose_kernel() -> Kernel:
    """Returns the kernel given by WSS_LAB_KERNEL (image) and WSS_LAB_MODULES (root of its modules), or else
    the newest installed one."""
    image = os.environ.get("WSS_LAB_KERNEL")
    return custom_kernel(Path(image), Path(os.environ.get("WSS_LAB_MODULES", Path(image).parent))) if image else newest_installed()


def fetched_kernel(which: str) -> Kernel:
    """Returns the kernel `which` (newer or newest) and fetches it if necessary, with progress on standard error."""
    fetched = subprocess.run([str(KERNEL_SCRIPTS / f"{which}.sh")], stdout=subprocess.PIPE, text=True, check=False)
    if fetched.returncode != 0:
        raise LabError(f"the {which} kernel could not be fetched")
    home = Path(fetched.stdout.strip())
    return custom_kernel(home / "bzImage", home)


def newest_installed(boot: Path = Path("/boot")) -> Kernel:
    found = [Kernel(image.name.removeprefix("vmlinuz-"), image) for image in boot.glob("vmlinuz-*")]
    usable = [kernel for kernel in found if (kernel.modules / "modules.dep").exists()]
    if not usable:
        raise LabError(
            f"no kernel to boot: {boot} has {len(found)} images, none of them with /lib/modules/RELEASE;"
            " install the package linux-image-amd64"
        )
    return max(usable, key=lambda kernel: _natural(kernel.release))


def custom_kernel(image: Path, root: Path) -> Kernel:
    """Returns a custom kernel. The root of its modules must have exactly one lib/modules/RELEASE."""
    root = root.resolve()
    releases = [path.parent.name for path in root.glob("lib/modules/*/modules.dep")]
    if not image.is_file() or len(releases) != 1:
        raise LabError(
            f"{image} (WSS_LAB_KERNEL): needs the image and one lib/modules/RELEASE/modules.dep"
            f" under {root} (WSS_LAB_MODULES) (found {len(releases)})"
        )
    return Kernel(releases[0], image.resolve(), root)


def _natural(release: str) -> list[tuple[int, int | str]]:
    """Returns a sort key for which 6.1.0-56 is newer than 6.1.0-9."""
    parts = re.findall(r"\d+|\D+", release)
    return [(1, int(part)) if part.isdigit() else (0, part) for part in parts]
