# SPDX-License-Identifier: Apache-2.0
"""Administrative commands of the programs, over their control sockets."""

from __future__ import annotations

from pathlib import Path

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
