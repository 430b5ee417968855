# SPDX-License-Identifier: Apache-2.0
"""The machines' soft RDMA device: rxe, or siw with WSS_LAB_RDMA=siw if the kernel has it."""

from __future__ import annotations

import os

KIND = os.environ.get("WSS_LAB_RDMA") or "rxe"
DEVICE = f"{KIND}0"
ADD = f"rdma link add {DEVICE} type {KIND} netdev eth0"
REMOVE = f"rdma link delete {DEVICE}"
