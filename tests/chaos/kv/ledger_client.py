# SPDX-License-Identifier: Apache-2.0
"""A client with keys of its own, whose operations are all checked against its ledger."""

from __future__ import annotations

import json
import queue
import random
import threading
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import Callable

from .. import limits
from ..problems import Lost, Problem
from .kvctl import CONDITION, DONE, TIMEOUT, Kvctl, KvctlProcess
from .ledger import Item, Ledger, Values, Write

PLAIN, EXPIRING, COUNTERS = 120, 24, 4  # number of keys of each kind
TTLS = (0.3, 2.0, 4.0, 8.0)  # seconds
LENGTHS = (12, 40, 200, 200, 1000, 4000, 6000, 20_000)  # lengths of values; the last one is rare
LARGE = 100_000
REMEMBERED = 65536  # number of requests and answers in the history
MODES = ([], ["--one-sided", "on"], ["--one-sided", "on", "--address-cache", "0"], ["--transport", "ring"],
         ["--one-sided", "on", "--transport", "ring"], ["--session-order"])
UNKNOWN = "outcome unknown"  # part of a command's error
ANSWER = TIMEOUT + limits.CLIENT  # seconds until a request is answered, even while its client is stopped


class Counter:
    """A counter whose value is between `low` and `high`: additions of unknown outcome may take effect
    later."""

    def __init__(self):
        self.low = self.high = 0


class LedgerClient(KvctlProcess):
    def __init__(self, name: str, kvctl: Kvctl, seed: int, folder: Path, prefix: list[str]):
        self.chance = random.Random(f"{seed} {name}")
        super().__init__(name, "client", self._command, "", folder)
        self.kvctl, self.prefix = kvctl, prefix
        self.plain = [f"{name}:plain{number:03}" for number in range(PLAIN)]
        self.expiring = [f"{name}:expiring{number:02}" for number in range(EXPIRING)]
        self.counters = {f"{name}:counter{number}": Counter() for number in range(COUNTERS)}
        self.ledger = Ledger(name, self.plain + self.expiring)
        self.working = threading.Lock()  # held during an operation
        self.may_work = threading.Event()
        self.may_work.set()
        self.operations = 0  # number of keys that were read and written with a checked result
        self.failed = 0
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.history: deque[str] = deque(maxlen=REMEMBERED)

    def _command(self) -> list[str]:
        return [*self.prefix, *self.kvctl.words(*self.chance.choice(MODES), "txn")]

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure
        super().check()

    # --- the load ---

    def _work(self) -> None:
        try:
            while not self._retired:
                self.may_work.wait()
                with self.working:
                    self._one()
        except BaseException as failure:
            if not self._retired:
                self.failure = failure

    @contextmanager
    def at_rest(self):
        """Waits until no operation is in flight, and lets none begin during the `with` block."""
        limit = ANSWER + limits.COMMAND
        self.may_work.clear()
        if not self.working.acquire(timeout=limit):
            raise Problem(f"{self.name}: an operation did not end within {limit:.0f} s")
        try:
            yield
        finally:
            self.working.release()
            self.may_work.set()

    def _one(self) -> None:
        drawn = self.chance.random()
        for share, act in self.SHARES:
            if drawn < share:
                try:
                    return act(self)
                except Lost:
                    self.failed += 1
                    return time.sleep(0.02)
            drawn -= share

    def read(self, keys: list[str]) -> None:
        began = time.monotonic()
        answer = self.request({"get": keys})
        if "items" not in answer:
            raise Lost(answer["error"])
        self._check([_item(item) for item in answer["items"]], began)

    def _check(self, items: list[Item], began: float) -> None:
        self.ledger.check(items, began)
        self.operations += len(items)

    def _read_some(self) -> None:
        self.read(self.chance.sample([*self.plain, *self.expiring], self.chance.randint(1, 8)))

    def _write_some(self) -> None:
        self.write(self.draw_values(self.plain, self.chance.choice((1, 1, 1, 2, 3, 4, 5, 6))))

    def _write_expiring(self) -> None:
        self.write(self.draw_values(self.expiring, self.chance.randint(1, 3)), ttl=self.chance.choice(TTLS))

    def draw_values(self, keys: list[str], count: int) -> Values:
        return {key: self.draw_value(key) for key in self.chance.sample(keys, count)}

    def draw_value(self, key: str) -> str | None:
        if key in self.plain and self.chance.random() < 0.15:
            return None
        length = LARGE if self.chance.random() < 0.002 else self.chance.choice(LENGTHS)
        start = f"{self.ledger.last + 1}:"
        return (start + f"{key} " * (length // len(key) + 1))[:max(length, len(start))]

    def write(self, values: Values, ttl: float | None = None, conditions: dict[str, int | None] | None = None) -> bool:
        """Writes values, and returns whether the write was acknowledged."""
        write = self.ledger.begin(values, ttl)
        line: dict = {"put": {key: value for key, value in values.items() if value is not None}}
        if deleted := [key for key, value in values.items() if value is None]:
            line["del"] = deleted
        if ttl:
            line["ttl_ms"] = int(ttl * 1000)
        if conditions is not None:
            line["if"] = conditions
        try:
            answer = self.request(line)
        except Lost as lost:
            self.ledger.unknown(write, str(lost))
            raise
        return self._end_write(write, answer, conditions)

    def _end_write(self, write: Write, answer: dict, conditions: dict[str, int | None] | None) -> bool:
        if "outcome" in answer:
            self.ledger.unknown(write, answer["error"])
        elif "error" in answer:
            self.ledger.failed(write, answer["error"])
            if "failed_if" in answer:
                self._check_failed_condition(answer["failed_if"], conditions)
        else:
            self.ledger.acknowledged(write, answer["timestamp"])
            self.operations += len(write.values)
            return True
        self.failed += 1
        return False

    # --- writes with conditions ---

    def _write_conditional(self) -> None:
        """Writes with conditions. Each condition requires a version: either the only one that can be the
        latest, or one that cannot be the latest."""
        keys = [key for key in self.chance.sample(self.plain, 6) if self.ledger.certain(key)][:3]
        if not keys:
            return
        conditions = {key: self._expected(key) for key in keys}
        false = self.chance.random() < 0.3
        if false:
            conditions[keys[0]] = 5  # no version has this timestamp
        values = {key: self.draw_value(key) for key in self.chance.sample(keys, self.chance.randint(1, len(keys)))}
        if self.write(values, conditions=conditions) and false:
            raise self.ledger.wrong(f"a write was acknowledged although {keys[0]} never had the version 5", *keys)

    def _expected(self, key: str) -> int | None:
        return None if self.ledger.keys[key].value is None else self.ledger.certain(key)

    def _check_failed_condition(self, failed: dict, conditions: dict[str, int | None]) -> None:
        key = failed["key"]
        if conditions[key] != 5 and self.ledger.certain(key) and conditions[key] == self._expected(key):
            raise self.ledger.wrong(f"a condition on {conditions[key]} failed, with {failed['timestamp']} as the latest version", key)
        self.operations += 1

    # --- separate commands ---

    def _put_if(self) -> None:
        """Performs a conditional put of one key, for which there is a separate kind of message."""
        key = self.chance.choice(self.plain)
        if not self.ledger.certain(key):
            return
        expected, value = self._expected(key), f"{self.ledger.last + 1}:{key}"
        write = self.ledger.begin({key: value})
        condition = ["--if-absent"] if expected is None else ["--if-timestamp", expected]
        done = self.kvctl.run("--json", "put", key, value, *condition)
        if done.returncode == DONE:
            self.ledger.acknowledged(write, json.loads(done.stdout)["timestamp"])
        elif UNKNOWN in done.stderr:
            self.ledger.unknown(write, done.stderr)
        else:
            self.ledger.failed(write, done.stderr)
            if done.returncode == CONDITION:
                raise self.ledger.wrong(f"the condition of a put on {expected} failed: {done.stderr}", key)
        self.operations += 1

    def _count(self) -> None:
        key, counter = self.chance.choice(list(self.counters.items()))
        done = self.kvctl.run("--json", "incr", key)
        self.note(f"incr {key}: {done.returncode} {done.stdout.strip()} {done.stderr.strip()}")
        if done.returncode == DONE:
            value = json.loads(done.stdout)["value"]
            if not counter.low + 1 <= value <= counter.high + 1:
                raise Problem(f"{key}: the sum is {value}, expected {counter.low + 1} to {counter.high + 1}")
            counter.low, counter.high = value, counter.high + 1
            self.operations += 1
        elif UNKNOWN in done.stderr:
            counter.high += 1

    def _scan(self) -> None:
        began = time.monotonic()
        rows = self.kvctl.ask("scan", f"{self.name}:", "--values")
        self._check_rows(rows, began)

    def _check_rows(self, rows: list[dict], began: float) -> None:
        """Checks the rows of a scan. Its pages are not one transaction, so each key is checked on its own."""
        found = {row["key"]: row for row in rows if row["key"] not in self.counters}
        if strange := set(found) - set(self.ledger.keys):
            raise Problem(f"{self.name}: a scan returned keys that were never written: {sorted(strange)[:5]}")
        for key in self.ledger.keys:
            row = found.get(key)
            self._check([Item(key, row["value"] if row else None, row["timestamp"] if row else 0)], began)

    def export_and_import(self, keys: int, deleted: int) -> bool:
        """Exports the keys, deletes some and imports all. Returns whether the import was complete."""
        file = self.folder / "export"
        with self.at_rest():
            began = time.monotonic()
            if self.kvctl.run("export", file, "--prefix", f"{self.name}:plain").returncode != DONE:
                return False
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            self._check_rows_of(self.plain, rows, began)
            some = [row["key"] for row in rows][:deleted]
            if some:
                try:
                    self.write({key: None for key in some})
                except Lost:
                    pass
            return self._import(file, rows, keys)

    def _check_rows_of(self, keys: list[str], rows: list[dict], began: float) -> None:
        found = {row["key"]: row for row in rows}
        for key in keys:
            row = found.get(key)
            self._check([Item(key, row["value"] if row else None, row["timestamp"] if row else 0)], began)

    def _import(self, file: Path, rows: list[dict], keys: int) -> bool:
        writes = [self.ledger.begin({row["key"]: row["value"]}) for row in rows]
        done = self.kvctl.run("import", file, "--keys", keys)
        self.note(f"import: {done.returncode} {done.stderr.strip()}")
        for write in writes:
            if done.returncode == DONE:
                self.ledger.acknowledged(write, 0)
            else:
                self.ledger.unknown(write, done.stderr.strip())
        return done.returncode == DONE

    # --- while nothing is in flight ---

    def verify(self) -> None:
        """Reads everything, by key and by scan. Must be called while the client is at rest and all
        transactions are decided."""
        for keys in (self.plain, self.expiring):
            began = time.monotonic()
            answer = self._ask_when_healed({"get": keys})
            self.ledger.settle([_item(item) for item in answer["items"]], began)
        self._scan()
        sums = {item["key"]: item for item in self._ask_when_healed({"get": list(self.counters)})["items"]}
        for key, counter in self.counters.items():
            value = int(sums[key].get("value", 0))
            if not counter.low <= value <= counter.high:
                raise Problem(f"{key}: the sum is {value}, expected {counter.low} to {counter.high}")
            counter.low = counter.high = value
        self.operations += len(self.ledger.keys)

    def write_everywhere(self) -> None:
        """Writes keys of all partitions in one transaction. The transaction must succeed."""
        self._must_write(self.plain[:24])

    def write_each(self) -> None:
        """Writes keys of all partitions one by one. Each write must succeed, even if the versions of the keys
        are ahead of the clocks."""
        for key in self.plain[:24]:
            self._must_write([key])

    def _must_write(self, keys: list[str]) -> None:
        values = {key: self.draw_value(key) or "present" for key in keys}
        write = self.ledger.begin(values)
        answer = self._ask_when_healed({"put": values})
        if not self._end_write(write, answer, None):
            raise Problem(f"{self.name}: a healed store refuses a write: {answer}")

    def _ask_when_healed(self, line: dict) -> dict:
        try:
            answer = self.request(line)
        except Lost:  # the process has just been restarted, or ended because it reached no partition
            with self.lock:
                if not self.is_running():
                    self.start()
            answer = self.request(line)
        if "get" in line and "items" not in answer:
            raise Problem(f"{self.name}: not everything can be read after the repair: {answer}")
        return answer

    # --- requests ---

    def note(self, text: str) -> None:
        self.history.append(f"{time.time():.3f} {text[:1000]}\n")

    def write_history(self) -> None:
        (self.folder / "history").write_text("".join(self.history))

    def request(self, line: dict) -> dict:
        """Sends a request to the running process and returns the answer. Raises Lost if the process ends
        before it answers."""
        with self.lock:
            process, lines = self.process, self.lines
        text = json.dumps(line)
        self.note(f"> {text}")
        try:
            process.stdin.write(f"{text}\n".encode())
            process.stdin.flush()
            answer = lines.get(timeout=ANSWER)
        except (OSError, ValueError):
            raise Lost("the client has ended") from None
        except queue.Empty:
            raise Problem(f"{self.name} did not answer within {ANSWER:.0f} s: {text[:500]}\n{self.tail()}") from None
        self.note(f"< {answer}")
        if answer is None:
            raise Lost("the client ended before it answered")
        return json.loads(answer)

    SHARES: tuple[tuple[float, Callable], ...] = ((0.42, _read_some), (0.38, _write_some), (0.1, _write_conditional), (0.0965, _write_expiring),
                                                  (0.0015, _count), (0.0015, _put_if), (0.0005, _scan))


def _item(item: dict) -> Item:
    return Item(item["key"], item["value"] if item["found"] else None, item["timestamp"])
