# SPDX-License-Identifier: Apache-2.0
"""The lab boots stock Debian kernels with soft RDMA under QEMU, on the host's own root file system.

Start reading with lab.py (the object that tests and commands use), then vm.py (one machine) and guest.py (commands in it).
README.md describes its use.
"""
