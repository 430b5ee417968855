# SPDX-License-Identifier: Apache-2.0
"""The lab: real stock Debian kernels with soft RDMA, booted under QEMU on the host's own root file system.

Start reading at lab.py (what a test or a command holds), then vm.py (one machine) and guest.py (commands in it).
README.md describes how to use it.
"""
