# SPDX-License-Identifier: Apache-2.0
"""The rig: one machine with a loaded driver and a running target, which all behaviours share.

Each behaviour has its own file. `make check-system FILTER=<its name>` runs it alone. It uses `rig`, maps the
disks that it needs and checks its claim. The rig then removes the disks and checks that no session is left.
After a failure the rig is set up again, so that one behaviour does not affect the next."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.lab.errors import LabError
from tests.lab.fixtures import LABS_OF_TEST, SHARED_SHAPE, SharedLab
from tests.system.behaviour.rig import Rig


@pytest.fixture(scope="session")
def behaviour_lab(lab_say: Callable[[str], None]) -> Iterator[SharedLab]:
    shared = SharedLab(1, SHARED_SHAPE, lab_say)
    yield shared
    shared.finish()


@pytest.fixture(scope="session")
def rigs() -> dict[int, Rig]:
    """The rigs, by boot of the machine. Only that of the current boot is used."""
    return {}


@pytest.fixture
def rig(request: pytest.FixtureRequest, behaviour_lab: SharedLab, rigs: dict[int, Rig]) -> Iterator[Rig]:
    lab = behaviour_lab.acquire()
    request.node.stash.setdefault(LABS_OF_TEST, []).append(lab)
    mine = rigs.get(id(lab))
    if mine is None:
        rigs.clear()
        mine = rigs[id(lab)] = Rig(lab.vms[0])
    try:
        mine.stand_up()
        yield mine
        mine.tidy()
    except (LabError, AssertionError):
        mine.broken = True
        raise
    finally:
        if request.node.stash.get(FAILED, False):
            mine.broken = True
    behaviour_lab.release()


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    if outcome.get_result().failed:
        item.stash[FAILED] = True


THOROUGH = os.environ.get("WSS_THOROUGH", "0") not in ("", "0")


@pytest.fixture(scope="session")
def thorough() -> bool:
    return THOROUGH
