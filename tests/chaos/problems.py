# SPDX-License-Identifier: Apache-2.0
"""Errors that end a chaos run."""


class Problem(Exception):
    """A wrong byte, a crash, a sanitizer report, a hang, a leak, or a broken guarantee."""


class Refused(Exception):
    """A program rejected a command, with a reason. This means that nothing has changed."""


class Lost(Exception):
    """The program exited before it responded. The command may have taken effect."""
