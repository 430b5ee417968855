# SPDX-License-Identifier: Apache-2.0
"""Tests runs over several seeds and several invocations, and replays. The world has no programs."""

from __future__ import annotations

import argparse
import json

import pytest

from . import __main__ as chaos
from . import driver, limits
from .actions import FAULT, Action, Script, Step
from .problems import Problem
from .processes import Usage


class FakeWorld:
    taken: list[int] = []  # numbers of the actions that were taken, over all runs
    fails_at = -1
    failure: Exception = Problem("a wrong value")
    episodes = 0

    def __init__(self, build, folder, seed: int):
        self.seed, self.processes, self.verified = seed, [self], 0
        self.name, self.role, self.starts = "fake", "fake", 1
        self.actions = [Action("count", FAULT, lambda chance: {"number": chance.randrange(1000)}, self._take)]

    def _take(self, number: int) -> bool:
        self.taken.append(number)
        return True

    def check(self) -> None:
        if self.fails_at == FakeWorld.episodes:
            raise self.failure

    def usage(self) -> Usage:
        return Usage(1, 1)

    def start(self) -> None:
        pass

    def heal_and_verify(self) -> None:
        FakeWorld.episodes += 1
        if self.fails_at == FakeWorld.episodes:
            raise self.failure
        self.verified += 1_000_000

    def operations_verified(self) -> int:
        return self.verified

    def details(self) -> dict:
        return {}

    def stop(self) -> None:
        pass


@pytest.fixture(autouse=True)
def fake(monkeypatch, tmp_path):
    monkeypatch.setattr(chaos, "ROOT", tmp_path)
    monkeypatch.setattr(chaos, "WORLDS", {"kv": FakeWorld})
    monkeypatch.setattr(driver, "EPISODE", 0.2)
    monkeypatch.setattr(driver, "PAUSE", {"operation": 0.02, "fault": 0.02})
    monkeypatch.setattr(limits, "SLOW", 1.0)
    FakeWorld.taken, FakeWorld.fails_at, FakeWorld.failure, FakeWorld.episodes = [], -1, Problem("a wrong value"), 0


def options(tmp_path, **changed) -> argparse.Namespace:
    return argparse.Namespace(**{"build": tmp_path / "release", "seconds": 0.5, "seed": 7, "seeds": 2, "only": "kv", "replay": None, "resume": tmp_path / "proof",
                                 "without": "", "json": None, **changed})


def test_a_second_invocation_skips_completed_seeds(tmp_path, capsys):
    assert chaos.run_seeds(options(tmp_path)) == 0
    assert "2 of 2 seeds passed" in capsys.readouterr().out
    episodes = FakeWorld.episodes
    assert chaos.run_seeds(options(tmp_path, seeds=3)) == 0
    assert FakeWorld.episodes < 2 * episodes


def test_an_interrupted_seed_continues_with_its_next_episode(tmp_path, capsys):
    state = tmp_path / "proof/kv-7.json"
    assert chaos.run(options(tmp_path, seconds=0.1, resume=state)) == 0
    kept = json.loads(state.read_text())
    capsys.readouterr()
    assert chaos.run_seeds(options(tmp_path, seconds=kept["seconds"] + 0.1, seeds=1)) == 0
    printed = capsys.readouterr().out
    assert f"episode {kept['episodes']}:" in printed and f"episode {kept['episodes'] - 1}:" not in printed


def test_a_failed_seed_stays_failed(tmp_path, capsys):
    FakeWorld.fails_at = 2
    assert chaos.run_seeds(options(tmp_path)) == 1
    assert "make chaos MODE=release REPLAY=" in capsys.readouterr().out
    FakeWorld.fails_at = -1
    assert chaos.run_seeds(options(tmp_path)) == 1
    assert "a wrong value" in capsys.readouterr().out


def test_a_failure_of_the_harness_in_a_thread_is_reported_with_its_script(tmp_path, capsys):
    FakeWorld.fails_at, FakeWorld.failure = 2, ValueError("not JSON")
    assert chaos.run(options(tmp_path, resume=None)) == 1
    printed = capsys.readouterr().out
    assert "the harness failed" in printed and "not JSON" in printed and "REPLAY=" in printed


def test_a_replay_takes_the_recorded_steps_of_a_resumed_run(tmp_path):
    path = tmp_path / "script.jsonl"
    script = Script(path, {"only": "kv", "seed": 7, "seconds": 0.5})
    for episode in (3, 4):
        script.add(Step(episode, 0.0, FAULT, "count", {"number": episode}))
    assert chaos.run(options(tmp_path, replay=path)) == 0
    assert FakeWorld.taken == [3, 4]
    assert FakeWorld.episodes == 2
