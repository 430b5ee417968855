# SPDX-License-Identifier: Apache-2.0
"""Initiators that write anything into the rings of shm, and initiators that accept no data, beside a good client of the target."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.hostile.setup import ROUNDS_MAX, SEED, Attack, answer, check_log, lacks, share, target_with_good_volume, verifying
from tests.native.cache_cluster import until
from tests.native.programs import Nbd

DURATION = share(0.1)
LEAST = {
    "rings": {"logins": 10, "closed_by_target": 5, "scribbles": 50, "frames": 150, "answers": 150, "refused": 1, "grants": 1, "verified": 100},
    "slow": {"logins": 8, "reads": 200, "verified": 100},
}


@pytest.mark.parametrize("attack, scheme", [("rings", "shm"), ("slow", "shm"), ("slow", "tcp")])
def test_good_client_makes_progress_beside_a_hostile_initiator(tmp_path: Path, attack: str, scheme: str) -> None:
    shm = f"shm://{tmp_path}/target.shm"
    target = target_with_good_volume(tmp_path, "tcp://127.0.0.1:0", "--listen", shm)
    done: Counter = Counter()
    with target:
        # Sessions of one source share their buffers. Over shm, a source is a process, so the good client is another source.
        good = Nbd(target.address if scheme == "shm" else shm, "good", tmp_path / "nbd", {}).start()
        try:
            for number in range(ROUNDS_MAX):
                attacked = shm if scheme == "shm" else target.address
                seconds = 2 * DURATION if attack == "slow" else DURATION
                with Attack(attack, attacked, seconds, seed=SEED + number) as hostile:
                    if attack == "slow":
                        until(lambda: len(answer(tmp_path / "control.sock", "session", "list")["sessions"]) > 8, 30, "logins of the attack")
                    with verifying(good, DURATION) as job:
                        pass
                    lasts = hostile.process.poll() is None
                    done += hostile.counts()
                # A slow initiator that delayed the good client would do so until the attack ends.
                if attack != "slow" or lasts:
                    done["verified"] += job["read"]["total_ios"]
                if not lacks(done, LEAST[attack]):
                    break
        finally:
            good.stop()
        assert "lost" not in (log := (tmp_path / "nbd/log").read_text()), log
    check_log(target.log)
    assert not lacks(done, LEAST[attack]), done
