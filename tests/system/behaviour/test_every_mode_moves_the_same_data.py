# SPDX-License-Identifier: Apache-2.0
"""The data is correct without extensions, without immediate data, without inline SENDs, with lazy
invalidation, and with a region per segment."""

import pytest

from tests.system.behaviour.rig import Rig

MODES = {"no_extensions": "caps=0", "no_immediate_data": "max_imm=0", "lazy": "invalidate=lazy",
         "no_fused_completion": "caps=0xd", "no_batched_completion": "caps=0xf", "no_remote_invalidation": "caps=0xe",
         "region_a_segment": "mlockv=off", "region_a_segment_always": "mlockv=off max_imm=0 caps=0"}


@pytest.mark.parametrize("mode", [*MODES, "no_inline"])
def test_every_mode_moves_the_same_data(rig: Rig, mode: str) -> None:
    if mode == "no_inline":
        rig.set("force_no_inline", 1)
    device = rig.map("a", MODES.get(mode, ""))
    rig.verify(device, "--bssplit=4k/60:16k/20:128k/20 --iodepth=16", mib=2)
    counters = rig.counters()
    if mode in ("no_immediate_data",):
        assert counters["immediate_writes"] == 0
    if mode in ("no_extensions", "no_fused_completion"):
        assert counters["fused_completions"] == 0
    if mode in ("no_extensions", "no_fused_completion", "no_batched_completion"):
        assert counters["batched_completions"] == 0
    if mode in ("no_extensions", "no_remote_invalidation"):
        assert counters["remote_invalidations"] == 0
    if mode.startswith("region_a_segment"):
        assert counters["regions_registered"] > 2 * counters["requests"], counters
        assert counters["regions_registered"] == counters["regions_released"], counters
        assert counters["remote_invalidations"] == 0
    assert counters["errors"] == counters["protocol_errors"] == 0, counters
    assert counters["dma_mapped"] == 0, counters
