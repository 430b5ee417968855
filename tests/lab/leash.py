# SPDX-License-Identifier: Apache-2.0
"""Child processes that cannot outlive the lab, even if it ends by SIGKILL.

When a parent dies, the kernel sends its child a signal if the child has requested that (setpriv). If the
parent dies before the request, the child gets no signal. So after its request, the child checks that its
parent is still the lab, and only then executes the program. Note that the "parent" is the *thread* that
started the child.
"""

from __future__ import annotations

import os
from typing import Sequence

UNLESS_ORPHAN = '[ "$PPID" = "$0" ] && exec "$@"'


def leashed(command: Sequence[str]) -> list[str]:
    """Returns the command in a form that only this process may start."""
    return ["setpriv", "--pdeathsig", "KILL", "sh", "-c", UNLESS_ORPHAN, str(os.getpid()), *command]
