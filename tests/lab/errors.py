# SPDX-License-Identifier: Apache-2.0
"""The lab's exceptions. Each message states the failure, its object and the remedy."""


class LabError(Exception):
    """A failure of the lab itself."""


class BootError(LabError):
    """A machine did not boot within its limit. The message ends with the last lines of its console."""


class GuestDied(LabError):
    """The machine went down while it was needed (panic, power cut, orderly power-off)."""


class GuestTimeout(LabError):
    """A command exceeded its time limit and was killed. The exception contains the output up to that time."""

    def __init__(self, message: str, stdout: str = "", stderr: str = "") -> None:
        super().__init__(message)
        self.stdout = stdout
        self.stderr = stderr


class CommandFailed(LabError):
    """A command that had to succeed exited with a status other than 0."""


class KernelComplaint(LabError):
    """The kernel log of a machine contains a warning, oops, lockdep report or KASAN report that no rule
    allows."""


def tail(text: str, lines: int = 25) -> str:
    """Returns the last lines of a log, indented, for the end of an error message."""
    last = text.replace("\r", "").splitlines()[-lines:]
    return "\n".join("    | " + line for line in last) or "    | (nothing)"
