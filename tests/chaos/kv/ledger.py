# SPDX-License-Identifier: Apache-2.0
"""The ledger of what the keys of one client may contain. It is derived from the outcome of each write:
acknowledged, failed or unknown. The ledger is part of the harness, so it survives every program. Only this
client writes the keys, one write at a time."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from .. import limits
from ..problems import Problem

SLACK = 1.0 * limits.SLOW  # seconds by which a key may expire early or late
REMEMBERED = 40  # number of events of each key that are kept for the report of a wrong result

Values = dict[str, "str | None"]  # value of each key; None: absent


@dataclass(eq=False)
class Write:
    """A transaction. `ended` is None while its outcome is unknown."""

    number: int
    values: Values
    began: float
    ttl: float | None = None
    ended: float | None = None


@dataclass
class Key:
    value: str | None = None
    timestamp: int = 0  # timestamp of the version; 0: unknown
    write: Write | None = None  # the write that wrote the value; None: the key was never written
    pending: list[Write] = field(default_factory=list)  # writes that may take effect at any time
    events: deque = field(default_factory=lambda: deque(maxlen=REMEMBERED))


@dataclass
class Item:
    """One key of a read."""

    key: str
    value: str | None
    timestamp: int


class Ledger:
    def __init__(self, name: str, keys: list[str]):
        self.name = name
        self.keys = {key: Key() for key in keys}
        self.last = 0  # number of the latest write
        self.writers: dict[tuple[str, str], Write] = {}  # the write of each key and value
        # If a clock is or was wrong, keys expire early or late. A write that began after that expires on
        # time.
        self.clocks_right_since = 0.0

    def wrong(self, what: str, *keys: str) -> Problem:
        lines = [f"{self.name}: {what}"]
        for key in keys:
            state = self.keys[key]
            lines.append(f"  {key} may be {sorted(map(_short, self._possible(key, 0, 0)))}, version {state.timestamp or 'unknown'}. Events:")
            lines += [f"    {event}" for event in state.events]
        return Problem("\n".join(lines))

    def note(self, keys, text: str) -> None:
        for key in keys:
            self.keys[key].events.append(f"{time.strftime('%T')}.{int(time.time() * 1000) % 1000:03} {text}")

    # --- writes ---

    def begin(self, values: Values, ttl: float | None = None) -> Write:
        self.last += 1
        write = Write(self.last, values, time.monotonic(), ttl)
        for key, value in values.items():
            self.keys[key].pending.append(write)
            if value is not None:
                self.writers[key, value] = write
        self.note(values, f"write {write.number} begins: {({key: _short(value) for key, value in values.items()})}{f' ttl {ttl} s' if ttl else ''}")
        return write

    def acknowledged(self, write: Write, timestamp: int) -> None:
        write.ended = time.monotonic()
        self.note(write.values, f"write {write.number} acknowledged at {timestamp}")
        for key, value in write.values.items():
            state = self.keys[key]
            if timestamp and timestamp <= state.timestamp:
                raise self.wrong(f"write {write.number} was acknowledged at {timestamp}, below the version that it replaces", key)
            state.pending.remove(write)
            state.value, state.timestamp, state.write = value, timestamp, write

    def failed(self, write: Write, why: str) -> None:
        self.note(write.values, f"write {write.number} failed: {why}")
        for key in write.values:
            self.keys[key].pending.remove(write)

    def unknown(self, write: Write, why: str) -> None:
        """Records that the write may take effect, as a whole, at any time until settle()."""
        self.note(write.values, f"write {write.number}: outcome unknown: {why}")

    # --- reads ---

    def check(self, items: list[Item], began: float) -> None:
        """Checks a read that began at this time and has just ended."""
        ended = time.monotonic()
        for item in items:
            self.note([item.key], f"read: {_short(item.value)} at {item.timestamp}")
            state = self.keys[item.key]
            if item.value not in self._possible(item.key, began, ended):
                raise self.wrong(f"read {_short(item.value)} at {item.timestamp}", item.key)
            known = state.timestamp and item.value is not None and item.value not in [write.values[item.key] for write in state.pending]
            if known and item.timestamp != state.timestamp:
                raise self.wrong(f"read the version {item.timestamp} with the value of {state.timestamp}", item.key)
        self._check_atomicity(items)

    def _possible(self, key: str, began: float, ended: float) -> set[str | None]:
        state = self.keys[key]
        found = {write.values[key] for write in state.pending} | {state.value}
        if any(write.ttl for write in state.pending):
            found.add(None)
        write = state.write
        if state.value is None or write is None or not write.ttl:
            return found
        strict = self._is_on_time(write)
        if not strict or ended > write.began + write.ttl - SLACK:
            found.add(None)
        if strict and began > write.ended + write.ttl + SLACK:
            found.discard(state.value)
        return found

    def _is_on_time(self, write: Write) -> bool:
        return write.began > self.clocks_right_since

    def _check_atomicity(self, items: list[Item]) -> None:
        """Checks that keys that were written together are read together, or that later versions of them are
        read."""
        for item in items:
            write = self.writers.get((item.key, item.value)) if item.value is not None else None
            if write is None or len(write.values) == 1:
                continue
            for other in items:
                if other.key in write.values and 0 < other.timestamp < item.timestamp:
                    raise self.wrong(f"fractured read: {item.key} at {item.timestamp} was written together with {other.key}, of which {other.timestamp} "
                                     f"was read", item.key, other.key)

    def certain(self, key: str) -> int | None:
        """Returns the version of the key if only this one can be the latest, otherwise None."""
        state = self.keys[key]
        return state.timestamp if not state.pending and state.timestamp and not (state.write and state.write.ttl) else None

    # --- all keys, while nothing is in flight ---

    def settle(self, items: list[Item], began: float) -> None:
        """Called when all transactions are decided: what a read returns now is the state."""
        self.check(items, began)
        versions = {item.key: item.timestamp for item in items}
        for item in items:
            state = self.keys[item.key]
            for write in state.pending:
                if write.values[item.key] == item.value and item.value is not None:
                    self._check_whole(write, item, versions)
            decided = next((write for write in state.pending if write.values[item.key] == item.value), state.write)
            if decided is not None and decided.ended is None:
                decided.ended = time.monotonic()
            # With wrong clocks, a key that has expired for one reader may not have expired for another one.
            comes_back = item.value is None and decided is not None and decided.ttl and not self._is_on_time(decided)
            state.value = decided.values[item.key] if comes_back else item.value
            state.timestamp, state.write, state.pending = item.timestamp, decided, []
        self._forget_writers()

    def _check_whole(self, write: Write, item: Item, versions: dict[str, int]) -> None:
        for other in write.values:
            if 0 < versions.get(other, 0) < item.timestamp:
                raise self.wrong(f"write {write.number} took effect on {item.key} at {item.timestamp}, but not on {other}", item.key, other)

    def moved(self) -> None:
        """Called when the keys have moved to another store, where they have other versions. Keys are no
        longer connected by the writes."""
        for key, state in self.keys.items():
            state.timestamp = 0
            if state.value is not None and state.write is not None:
                state.write = Write(state.write.number, {key: state.value}, state.write.began, state.write.ttl, state.write.ended)
        self._forget_writers()

    def _forget_writers(self) -> None:
        self.writers = {(key, state.value): state.write for key, state in self.keys.items() if state.value is not None and state.write is not None}


def _short(value: str | None) -> str:
    return "absent" if value is None else value if len(value) <= 24 else f"{value[:24]}…({len(value)} bytes)"
