# SPDX-License-Identifier: Apache-2.0
"""Programs inside a guest: init.sh (first process of the initramfs) and agent.py (first process of the real root)."""
