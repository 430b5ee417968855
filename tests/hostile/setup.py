# SPDX-License-Identifier: Apache-2.0
"""Programs under attack, attacks, and a good client beside them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.native import programs
from tests.native.programs import Nbd, run

HOSTILE = Path(os.environ.get("WSS_HOSTILE_BUILD", "build/asan")).resolve()
SECONDS = int(os.environ.get("WSS_ATTACK_SECONDS", "30"))
SEED = int(os.environ.get("WSS_ATTACK_SEED", str(int(time.time()))))
# Hostile initiators write to smaller LUNs only, so the volume contains only data of the good client (kGoodLun in messages.h).
GOOD_LUN = 5000
# On a busy machine, one round of an attack may be too short for an effect.
ROUNDS_MAX = 20
STATE = {"format": "wss-target-state", "version": 1,
         "volumes": [{"name": "good", "lun": GOOD_LUN, "wwid": "123456789abcdef", "declared": True}]}


def share(part: float) -> int:
    """Seconds of one attack: a part of those of all attacks, but at least two."""
    return max(2, round(SECONDS * part))


def lacks(done: Counter, least: dict[str, int]) -> dict[str, int]:
    """Operations of which there were fewer than required. With too few, an attack is no test."""
    return {name: done[name] for name, number in least.items() if done[name] < number}


def answer(control: Path, *words: str) -> dict:
    return json.loads(run(HOSTILE / "wssctl", "--control", control, "--json", *words).stdout)


def memory_mib(pid: int) -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) >> 10


def check_log(*logs: Path) -> None:
    """No sanitizer has reported an error."""
    for log in logs:
        text = log.read_text(errors="replace")
        assert "Sanitizer" not in text and "runtime error" not in text, text[-8000:]


def target_with_good_volume(directory: Path, listen: str, *more: str) -> programs.Target:
    """A target with the volumes `scratch` (LUN 0), `file` (LUN 1) and `good`. Its control socket is `directory`/control.sock."""
    control, state = directory / "control.sock", directory / "state.json"
    state.write_text(json.dumps(STATE))
    # A volume in the state file is not created again, so its image must exist.
    with (directory / "good.img").open("wb") as image:
        image.truncate(64 << 20)
    config = directory / "wss.toml"
    config.write_text(f'control = "{control}"\nstate = "{state}"\nlog_level = "error"\n')
    volumes = {"scratch": "ram:16M", "file": f"aio:{directory}/scratch.img,size=16M,create", "good": f"aio:{directory}/good.img"}
    target = programs.Target(listen, volumes, directory, "--config", str(config), *more)
    del target.command[(at := target.command.index("--control")):at + 2]
    return target


class Attack:
    """A running wss-attack."""

    def __init__(self, name: str, address: str, seconds: int, *listen: str, seed: int = SEED):
        self.name = name
        self.process = subprocess.Popen([HOSTILE / "wss-attack", name, address, str(seconds), str(seed), *listen], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def end(self) -> Counter:
        self.process.terminate()
        return self.counts()

    def counts(self) -> Counter:
        """Waits for the end of the attack, which must be a success."""
        said, complaint = self.process.communicate(timeout=90)
        assert self.process.returncode == 0, (said, complaint)
        print(f"{self.name}: {said.strip()}")
        return Counter(json.loads(said))

    def __enter__(self) -> "Attack":
        return self

    def __exit__(self, *_) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def verifying(good: Nbd, seconds: int) -> Iterator[dict]:
    """A good client that writes and verifies during the `with` block. At its end, the job of fio's report is added to the result."""
    client = subprocess.Popen(
        ["fio", "--name=good", "--ioengine=nbd", f"--uri={good.uri}", "--rw=randwrite", "--bssplit=4k/50:16k/30:128k/20",
         "--iodepth=8", "--size=48m", "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=64", "--verify_state_save=0",
         "--time_based", f"--runtime={seconds}", "--output-format=json"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    job: dict = {}
    try:
        yield job
        output, _ = client.communicate(timeout=90)
        assert client.returncode == 0, output[-3000:]
        job |= json.loads(output[output.index("{\n"):])["jobs"][0]
    finally:
        client.kill()
        client.communicate()
