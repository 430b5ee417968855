# SPDX-License-Identifier: Apache-2.0
"""Chooses steps from a seed, or reads them from a script. Executes operations and faults in two concurrent
lanes. After each episode, the world heals and verifies itself."""

from __future__ import annotations

import random
import threading
import time

from . import limits
from .actions import LANES, Action, Script, Step, World
from .problems import Lost, Problem, Refused
from .processes import Usage
from .report import Report

EPISODE = 20.0  # seconds of chaos between two verifications
PAUSE = {"operation": 0.3, "fault": 0.5}  # average seconds between two steps
STEADY = 8  # in every eighth episode and in the last, no process is ended, so that growing memory is detected


class Driver:
    def __init__(self, world: World, report: Report, script: Script, replayed: list[Step] | None):
        self.world, self.report, self.script, self.replayed = world, report, script, replayed
        self.by_name = {action.name: action for action in world.actions}
        self.first_calm: dict[tuple[str, int], Usage] = {}  # by process and number of its start
        self.failure: BaseException | None = None
        self.steady = False
        self.began = time.monotonic()

    def run(self, seconds: float) -> None:
        """Runs all episodes. Raises the Problem that ends the run."""
        done_before, operations_before = self.report.seconds, self.report.operations
        started = time.monotonic()
        last = max((step.episode for step in self.replayed or []), default=None)
        if self.replayed:
            self.report.episodes = min(step.episode for step in self.replayed)
        while True:
            episode = self.report.episodes
            left = seconds - (time.monotonic() - started)
            if left <= 0 if last is None else episode > last:
                return
            self.steady = episode % STEADY == STEADY - 1 or left <= EPISODE
            self._episode(episode, min(EPISODE, max(left, 2)))
            self._calm()
            self.report.episodes += 1
            self.report.seconds = done_before + time.monotonic() - started
            self.report.operations = operations_before + self.world.operations_verified()
            self.report.details = self.world.details()
            self.report.keep()
            self.report.say(f"episode {episode}: {self.report.seconds:.0f} s, {sum(self.report.effects.values())} of "
                            f"{sum(self.report.tried.values())} steps took effect, {self.report.operations} operations verified")

    # --- an episode ---

    def _episode(self, number: int, seconds: float) -> None:
        self.began = time.monotonic()
        lanes = [threading.Thread(target=self._lane, args=(lane, number, seconds), daemon=True) for lane in LANES]
        for lane in lanes:
            lane.start()
        deadline = self.began + seconds + limits.STEP
        for lane in lanes:
            while lane.is_alive():
                lane.join(0.2)
                self._watch()
                if time.monotonic() > deadline:
                    raise Problem(f"a step did not end within {limits.STEP:.0f} s: {self.current}")
        if self.failure is not None:
            raise self.failure

    def _watch(self) -> None:
        if self.failure is not None:
            raise self.failure
        for process in self.world.processes:
            process.check()

    def _lane(self, lane: str, episode: int, seconds: float) -> None:
        try:
            steps = self._drawn(lane, episode, seconds) if self.replayed is None else self._recorded(lane, episode)
            for step in steps:
                if self.failure is not None:
                    return
                self._take(step)
        except BaseException as failure:
            self.failure = failure

    def _drawn(self, lane: str, episode: int, seconds: float):
        chance = random.Random(f"{self.report.seed} {episode} {lane}")
        while True:
            time.sleep(chance.uniform(0, 2 * PAUSE[lane]))
            at = time.monotonic() - self.began
            if at > seconds:
                return
            action, arguments = self._draw(lane, chance)
            if action is not None:
                yield Step(episode, round(at, 3), lane, action.name, arguments)

    def _draw(self, lane: str, chance: random.Random) -> tuple[Action | None, dict]:
        """Prefers actions that have rarely taken effect, unless they were tried often."""
        possible = [action for action in self.world.actions if action.lane == lane and not (self.steady and action.ends)]
        chosen = sorted(chance.sample(possible, min(4, len(possible))), key=lambda each: self.report.effects[each.name] + self.report.tried[each.name] / 4)
        for action in chosen:
            arguments = action.draw(chance)
            if arguments is not None:
                return action, arguments
        return None, {}

    def _recorded(self, lane: str, episode: int):
        for step in self.replayed:
            if step.lane == lane and step.episode == episode:
                time.sleep(max(0.0, self.began + step.at - time.monotonic()))
                yield step

    current: dict[str, str] = {}

    def _take(self, step: Step) -> None:
        self.script.add(step)
        self.current[step.lane] = f"{step.action} {step.arguments}"
        started = time.monotonic()
        try:
            effect, reason = self.by_name[step.action].act(**step.arguments), ""
        except (Refused, Lost) as failure:
            effect, reason = False, str(failure)
        self.report.count(step.action, effect)
        self.report.say(f"  {step.episode}/{step.at:5.1f} {step.lane} {step.action} {step.arguments} "
                        f"{'ok' if effect else 'no effect'} {time.monotonic() - started:.1f} s {reason}"[:400])
        self.current.pop(step.lane, None)

    # --- between episodes ---

    def _calm(self) -> None:
        self.world.heal_and_verify()
        for process in self.world.processes:
            process.check()
            now = process.usage()
            first = self.first_calm.setdefault((process.name, process.starts), now)
            self.report.growth[process.role] = max(self.report.growth.get(process.role, 0), now.mib - first.mib)
            if now.mib - first.mib > limits.GROWTH_MIB or now.files - first.files > limits.GROWTH_FILES:
                raise Problem(f"{process.name} grew since its first verification: from {first} to {now}")
