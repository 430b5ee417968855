# SPDX-License-Identifier: Apache-2.0
"""An NBD client without limits on block sizes. libnbd and QEMU refuse to send unaligned requests."""

from __future__ import annotations

import socket
import struct

READ, WRITE, FLUSH, TRIM, ZEROES = 0, 1, 3, 4, 6
FUA, NO_HOLE = 1, 2


class RawNbd:
    def __init__(self, path, export: str = "", timeout: float = 30):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(str(path))
        magic, option_magic, flags = struct.unpack(">8s8sH", self._receive(18))
        assert (magic, option_magic) == (b"NBDMAGIC", b"IHAVEOPT")
        self.socket.sendall(struct.pack(">I", flags & 3))
        # The oldest handshake does not negotiate block sizes.
        self.socket.sendall(struct.pack(">8sII", b"IHAVEOPT", 1, len(export)) + export.encode())
        self.size, self.flags = struct.unpack(">QH", self._receive(10))
        if not flags & 2:
            self._receive(124)
        self.handle = 0

    def _receive(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            assert part, "the NBD server closed the connection"
            data += part
        return bytes(data)

    def command(self, kind: int, offset: int, length: int, data: bytes = b"", flags: int = 0) -> tuple[int, bytes]:
        """Sends one request. Returns the error (0: none), and the data of a READ."""
        self.handle += 1
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, flags, kind, self.handle, offset, length) + data)
        magic, error, handle = struct.unpack(">IIQ", self._receive(16))
        assert (magic, handle) == (0x67446698, self.handle)
        return error, self._receive(length) if kind == READ and error == 0 else b""

    def write_all(self, offsets, data: bytes) -> dict[int, int]:
        """Sends requests concurrently and returns the error (0: none) for each offset."""
        for offset in offsets:
            self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, WRITE, offset, offset, len(data)) + data)
        answers = (struct.unpack(">IIQ", self._receive(16)) for _ in offsets)
        return {offset: error for _, error, offset in answers}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
