# SPDX-License-Identifier: Apache-2.0
"""Programs inside a guest: init.sh, the first process of the initramfs, and agent.py, the first process of the real root."""
