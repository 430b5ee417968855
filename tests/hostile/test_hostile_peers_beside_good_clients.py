# SPDX-License-Identifier: Apache-2.0
"""Initiators that write anything into the rings of shm, and initiators that accept no data, beside a good client of the target."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.hostile.setup import ROUNDS_MAX, SEED, Attack, check_log, lacks, share, target_with_good_volume, verifying
from tests.native.programs import Nbd

DURATION = share(0.1)
LEAST = {
    "rings": {"logins": 10, "closed_by_target": 5, "scribbles": 50, "frames": 150, "answers": 150, "refused": 1, "grants": 1, "verified": 100},
    "slow": {"logins": 8, "reads": 200, "verified": 100},
}


@pytest.mark.parametrize("attack, scheme", [("rings", "shm"), ("slow", "shm"), ("slow", "tcp")])
def test_good_client_makes_progress_beside(tmp_path: Path, attack: str, scheme: str) -> None:
    shm = f"shm://{tmp_path}/target.shm"
    target = target_with_good_volume(tmp_path, "tcp://127.0.0.1:0", "--listen", shm)
    done: Counter = Counter()
    with target:
        # Sessions of one source share their buffers. Over shm, a source is a process, so the good client is another source.
        good = Nbd(target.address if scheme == "shm" else shm, "good", tmp_path / "nbd", {}).start()
        try:
            for number in range(ROUNDS_MAX):
                attacked = shm if scheme == "shm" else target.address
                with Attack(attack, attacked, DURATION, seed=SEED + number) as hostile, verifying(good, DURATION) as job:
                    done += hostile.counts()
                done["verified"] += job["read"]["total_ios"]
                if not lacks(done, LEAST[attack]):
                    break
        finally:
            good.stop()
        assert "lost" not in (log := (tmp_path / "nbd/log").read_text()), log
    check_log(target.log)
    assert not lacks(done, LEAST[attack]), done
