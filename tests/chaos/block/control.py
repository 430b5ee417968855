# SPDX-License-Identifier: Apache-2.0
"""Administrative commands of the programs, over their control sockets."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Callable

from tests.native.cache_cluster import ControlError, ask

from .. import limits
from ..problems import Lost, Problem, Refused

MIB = 1 << 20


def command(socket: Path, method: str, **parameters):
    """Returns the result. Raises Refused with the program's reason, or Lost if the program ended."""
    try:
        return ask(socket, method, limits.COMMAND, **parameters)
    except ControlError as failure:
        raise Refused(str(failure)) from None
    except TimeoutError:
        raise Problem(f"{method} {parameters}: no answer within {limits.COMMAND:.0f} s") from None
    except (OSError, AssertionError, ValueError) as failure:
        raise Lost(f"{method}: {failure}") from None


def wait_for(condition: Callable, seconds: float, what: str):
    """Returns the first true value of the condition, or raises a Problem at the time limit. Also waits while a program is not
    running."""
    deadline = time.monotonic() + seconds
    reason = ""
    while time.monotonic() < deadline:
        try:
            if value := condition():
                return value
        except (Lost, Refused) as failure:
            reason = str(failure)
        time.sleep(0.05)
    raise Problem(f"{what}: not within {seconds:.0f} s {reason}")
