# SPDX-License-Identifier: Apache-2.0
"""The time limits of a chaos run, in seconds, and limits on a process's growth. Exceeding one means a hang or a leak.
WSS_CHAOS_SLOW multiplies all times and divides the required events per second, for a machine with other load."""

import os

SLOW = max(1.0, float(os.environ.get("WSS_CHAOS_SLOW", "1")))

START = 60 * SLOW  # until a program is ready; a target waits for an image of Ceph for up to 45 s (open_timeout)
STOP = 45 * SLOW  # from SIGTERM to the exit
COMMAND = 30 * SLOW  # an administrative command
CLIENT = 40 * SLOW  # until a running client answers
HEALED = 40 * SLOW  # from the repair of everything until all parts have reconnected
SALVAGE = 5 * SLOW  # until returned engines have delivered data that only they hold
VERIFY = 60 * SLOW  # reading all volumes of a healed system
STEP = 150 * SLOW  # one operation or fault in total

# Between two verifications of one life.
GROWTH_MIB = 250  # resident; the allocators of the sanitizers keep much of the freed memory
GROWTH_FILES = 100  # open files; a client or an engine that reconnects may briefly have two connections
