# SPDX-License-Identifier: Apache-2.0
"""A resize that the backend refuses has no effect, not even after the next start."""

import pytest

from .cache_cluster import ControlError, ask
from .programs import Target

MIB = 1 << 20


def test_refused_shrink_of_a_read_only_file_leaves_the_volume_unchanged(tmp_path):
    image, control = tmp_path / "disk.img", tmp_path / "control.sock"
    image.write_bytes(bytes(MIB))
    target = Target(f"shm://{tmp_path}/serve", {"disk": f"aio:{image},ro"}, tmp_path, "--control", str(control), "--auth-off",
                    "--state", str(tmp_path / "state.json"))
    with target:
        with pytest.raises(ControlError):
            ask(control, "volume.resize", name="disk", size=MIB // 2)
        assert ask(control, "volume.list")[0]["size"] == MIB
    with target:
        assert ask(control, "volume.list")[0]["size"] == MIB
