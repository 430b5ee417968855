# SPDX-License-Identifier: Apache-2.0
"""Errors that end a chaos run."""


class Problem(Exception):
    """A wrong byte, a crash, a report of a sanitizer, a hang, a leak, or a broken guarantee."""


class Refused(Exception):
    """A program rejected a command, with its reason. According to the program nothing has changed."""


class Lost(Exception):
    """The program ended before it answered. The command may have taken effect."""
