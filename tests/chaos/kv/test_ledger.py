# SPDX-License-Identifier: Apache-2.0
"""Tests that the ledger detects each wrong result, and accepts the results that faults may cause."""

import time

import pytest

from ..problems import Problem
from . import ledger as module
from .ledger import Item, Ledger


@pytest.fixture
def ledger():
    return Ledger("test", ["a", "b", "c"])


def write(ledger, values, timestamp, **options):
    begun = ledger.begin(values, **options)
    ledger.acknowledged(begun, timestamp)
    return begun


def read(ledger, *items):
    ledger.check([Item(*item) for item in items], time.monotonic())


def wrong(ledger, *items, match):
    with pytest.raises(Problem, match=match):
        read(ledger, *items)


def test_ledger_accepts_the_latest_acknowledged_version_only(ledger):
    read(ledger, ("a", None, 0))
    write(ledger, {"a": "1"}, 10)
    write(ledger, {"a": "2"}, 20)
    read(ledger, ("a", "2", 20))
    wrong(ledger, ("a", "1", 10), match="read 1 at 10")
    wrong(ledger, ("a", None, 0), match="read absent")
    wrong(ledger, ("a", "2", 30), match="the version 30 with the value of 20")


def test_ledger_rejects_a_failed_write(ledger):
    write(ledger, {"a": "1"}, 10)
    ledger.failed(ledger.begin({"a": "2"}), "refused")
    read(ledger, ("a", "1", 10))
    wrong(ledger, ("a", "2", 20), match="read 2")


def test_ledger_accepts_a_write_of_unknown_outcome_at_any_time_until_it_is_settled(ledger):
    write(ledger, {"a": "1"}, 10)
    ledger.unknown(ledger.begin({"a": "2"}), "killed")
    for item in (("a", "1", 10), ("a", "2", 20)):
        read(ledger, item)
    write(ledger, {"a": "3"}, 30)
    for item in (("a", "3", 30), ("a", "2", 40)):
        read(ledger, item)
    wrong(ledger, ("a", "1", 10), match="read 1")
    ledger.settle([Item("a", "3", 30)], time.monotonic())
    wrong(ledger, ("a", "2", 40), match="read 2")


def test_ledger_rejects_a_write_of_unknown_outcome_that_took_effect_in_part(ledger):
    write(ledger, {"a": "1", "b": "1"}, 10)
    ledger.unknown(ledger.begin({"a": "2", "b": "2"}), "killed")
    with pytest.raises(Problem, match="fractured|took effect on a"):
        ledger.settle([Item("a", "2", 20), Item("b", "1", 10)], time.monotonic())


def test_ledger_rejects_a_fractured_read(ledger):
    write(ledger, {"a": "1", "b": "1"}, 10)
    ledger.unknown(ledger.begin({"a": "2", "b": "2", "c": "2"}), "killed")
    read(ledger, ("a", "2", 20), ("b", "2", 20))
    wrong(ledger, ("a", "2", 20), ("b", "1", 10), match="fractured")
    write(ledger, {"b": "3"}, 30)
    read(ledger, ("a", "2", 20), ("b", "3", 30))


def test_ledger_rejects_an_acknowledged_write_below_the_version_that_it_replaces(ledger):
    write(ledger, {"a": "1"}, 10)
    with pytest.raises(Problem, match="below the version"):
        write(ledger, {"a": "2"}, 9)


def test_keys_expire_on_time_if_the_clocks_are_right(ledger, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    slack = module.SLACK
    write(ledger, {"a": "1"}, 10, ttl=5 * slack)
    wrong(ledger, ("a", None, 20), match="read absent")
    now += 5 * slack
    read(ledger, ("a", None, 20), ("b", None, 0))
    read(ledger, ("a", "1", 10))
    now += 2 * slack
    read(ledger, ("a", None, 20))
    wrong(ledger, ("a", "1", 10), match="read 1")
    ledger.clocks_right_since = float("inf")
    read(ledger, ("a", "1", 10))
    read(ledger, ("a", None, 20))


def test_a_key_that_expired_by_a_wrong_clock_may_come_back(ledger):
    ledger.clocks_right_since = float("inf")
    write(ledger, {"a": "1"}, 10, ttl=5.0)
    ledger.settle([Item("a", None, 10)], time.monotonic())
    read(ledger, ("a", "1", 10))
    read(ledger, ("a", None, 0))
    write(ledger, {"a": "2"}, 20)
    wrong(ledger, ("a", "1", 10), match="read 1")


def test_a_moved_store_has_the_same_values_and_other_versions(ledger):
    write(ledger, {"a": "1", "b": "1"}, 10)
    ledger.moved()
    read(ledger, ("a", "1", 7), ("b", "1", 5))
    wrong(ledger, ("a", "2", 7), match="read 2")
