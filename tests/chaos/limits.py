# SPDX-License-Identifier: Apache-2.0
"""The time limits of a chaos run, in seconds, and the limits of a process's growth. A process that exceeds them hangs or leaks.
On a machine with other load, set WSS_CHAOS_SLOW: it multiplies all times, and divides the required effects
and operations per second."""

import os

SLOW = max(1.0, float(os.environ.get("WSS_CHAOS_SLOW", "1")))

START = 60 * SLOW  # until a program is ready; a target waits for a Ceph image for up to 45 s (open_timeout)
STOP = 45 * SLOW  # from SIGTERM to the exit
COMMAND = 30 * SLOW  # an administrative command
CLIENT = 40 * SLOW  # until a running client answers
HEALED = 40 * SLOW  # from the end of the repair until all parts have reconnected
SALVAGE = 5 * SLOW  # until returned engines have delivered data that only they hold
VERIFY = 60 * SLOW  # reading all volumes of a healed system
STEP = 150 * SLOW  # one operation or fault in total

# Growth since the first verification after a start.
GROWTH_MIB = 250  # resident memory; the allocators of the sanitizers keep much of the freed memory
GROWTH_FILES = 100  # open files; a reconnecting client or engine may briefly have two connections
