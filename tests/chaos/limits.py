# SPDX-License-Identifier: Apache-2.0
"""How long each wait of a chaos run may take, in seconds, and how much a process may grow. Beyond is a hang, or a leak."""

import os

_SLOW = float(os.environ.get("WSS_CHAOS_SLOW", "1"))  # several times longer under a sanitizer, or on a busy machine

START = 20 * _SLOW  # until a program is ready
STOP = 45 * _SLOW  # from SIGTERM to the exit
COMMAND = 30 * _SLOW  # an administrative command
CLIENT = 40 * _SLOW  # until a client that runs answers
HEALED = 40 * _SLOW  # from the repair of everything until all parts are connected again
SALVAGE = 5 * _SLOW  # until engines that are back have returned what only they hold
VERIFY = 60 * _SLOW  # reading all volumes of a healed system
STEP = 150 * _SLOW  # one operation or fault, all in all

GROWTH_MIB = 250  # of one process, between two calm moments of its life
