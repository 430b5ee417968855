# SPDX-License-Identifier: Apache-2.0
"""The frames that the lab and the agent in a guest exchange over a virtio-serial port.

A frame is a type (1 byte), a command number (4 bytes), a length (4 bytes), and that many bytes. The stream is reliable and
ordered; its end means that the machine is gone. Both sides use this file. It imports almost nothing, because
every module makes the guest's start under emulation longer.
"""

import struct

HEADER = struct.Struct("!BII")
PAYLOAD_MAX = 64 * 1024
PORT_NAME = "wss.agent"

# guest to host
HELLO = 1  # the agent is running; JSON
STDOUT = 2  # bytes of a command's standard output
STDERR = 3
EXIT = 4  # JSON: status (negative: a signal), seconds of guest time, error (if the command could not be
          # started)
KLOG = 5  # unchanged records of /dev/kmsg, separated by "\0"
STACKS = 6  # text: kernel stacks of a command's processes, in response to PEEK
# host to guest
SPAWN = 16  # JSON: argv, env, cwd, tty, deferred
STDIN = 17  # bytes for a command's standard input; empty: end of file
SIGNAL = 18  # 4 bytes: number of the signal for the command's process group
PEEK = 19  # requests STACKS
WINDOW = 20  # 4+4 bytes: rows and columns of the command's terminal
POWEROFF = 21
# in both directions
SYNC = 32  # returned when everything that the kernel has logged so far has been sent


def pack(kind: int, number: int, payload: bytes = b"") -> bytes:
    return HEADER.pack(kind, number, len(payload)) + payload


class Parser:
    """Splits the byte stream into frames, regardless of the sizes of its chunks."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list:
        """Returns the frames that have become complete, as (kind, number, payload). Raises ValueError for an invalid length."""
        self._buffer += data
        frames = []
        while len(self._buffer) >= HEADER.size:
            kind, number, length = HEADER.unpack_from(self._buffer)
            if length > PAYLOAD_MAX:
                raise ValueError(f"frame of {length} bytes; the limit is {PAYLOAD_MAX}")
            end = HEADER.size + length
            if len(self._buffer) < end:
                break
            frames.append((kind, number, bytes(self._buffer[HEADER.size : end])))
            del self._buffer[:end]
        return frames
