# SPDX-License-Identifier: Apache-2.0
"""`make check-hardware`: tests WSS over the RDMA cards of one or two machines and writes one report (Documentation/hardware.md)."""
