# SPDX-License-Identifier: Apache-2.0
"""How long each wait of a chaos run may take, in seconds, and how much a process may grow. Beyond is a hang, or a leak.
WSS_CHAOS_SLOW makes all waits so many times longer, and what has to happen per second so many times less: for a machine
that does other work meanwhile."""

import os

SLOW = max(1.0, float(os.environ.get("WSS_CHAOS_SLOW", "1")))

START = 60 * SLOW  # until a program is ready; a target waits for an image of Ceph for up to 45 s (open_timeout)
STOP = 45 * SLOW  # from SIGTERM to the exit
COMMAND = 30 * SLOW  # an administrative command
CLIENT = 40 * SLOW  # until a client that runs answers
HEALED = 40 * SLOW  # from the repair of everything until all parts are connected again
SALVAGE = 5 * SLOW  # until engines that are back have returned what only they hold
VERIFY = 60 * SLOW  # reading all volumes of a healed system
STEP = 150 * SLOW  # one operation or fault, all in all

# Between two calm moments of one life.
GROWTH_MIB = 250  # resident; the allocators of the sanitizers keep much of what was freed
GROWTH_FILES = 100  # open files; a client or an engine that reconnects may be between two connections
