# SPDX-License-Identifier: Apache-2.0
"""Child processes that cannot outlive the lab, whatever ends it, SIGKILL included.

The kernel sends a signal to a child whose parent dies, once the child has asked for it (setpriv). A parent that dies
before that leaves an orphan that nobody tells; so the child looks, after it has asked, whether its parent is still
the lab, and only then becomes the program. Note: "parent" is the *thread* that started the child.
"""

from __future__ import annotations

import os
from typing import Sequence

UNLESS_ORPHAN = '[ "$PPID" = "$0" ] && exec "$@"'


def leashed(command: Sequence[str]) -> list[str]:
    """The command, to be started by this process and no other."""
    return ["setpriv", "--pdeathsig", "KILL", "sh", "-c", UNLESS_ORPHAN, str(os.getpid()), *command]
