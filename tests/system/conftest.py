# SPDX-License-Identifier: Apache-2.0
"""System tests use the lab's fixtures (tests/lab/fixtures.py)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.lab.fixtures import *  # noqa: E402,F401,F403  (pytest finds fixtures by name in this module)
