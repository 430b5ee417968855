# SPDX-License-Identifier: Apache-2.0
"""Certificates for tls:// addresses, as PEM files."""

from __future__ import annotations

from pathlib import Path

from .programs import run

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


class Authority:
    """A certificate authority. `file` is its certificate, for peers that trust it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.file = folder / "ca.pem"
        folder.mkdir()
        run("openssl", "req", "-x509", *KEY, "-subj", "/CN=authority of a test", "-days", "2", "-keyout", folder / "ca.key",
            "-out", self.file)

    def issue(self, name: str, names: str = "IP:127.0.0.1") -> tuple[Path, Path]:
        """Issues a certificate and key for a host with these alternative names."""
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        run("openssl", "req", *KEY, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        extensions.write_text(f"subjectAltName={names}\n")
        run("openssl", "x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self.folder / "ca.key", "-CAcreateserial",
            "-days", "1", "-extfile", extensions, "-out", certificate)
        return certificate, key
