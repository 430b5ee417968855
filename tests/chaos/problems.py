# SPDX-License-Identifier: Apache-2.0
"""What ends a chaos run."""


class Problem(Exception):
    """A wrong byte, a crash, a report of a sanitizer, a hang, a leak, or a promise that was not kept."""


class Refused(Exception):
    """A program rejected a command, with its reason. Nothing changed, as far as it knows."""


class Lost(Exception):
    """The program went away before it answered. The command may have happened."""
