# SPDX-License-Identifier: Apache-2.0
"""Programs that do the measurements of wssbench that need the lab or a Ceph cluster. They print samples or rows, one JSON object
per line. wssbench computes the figures: their points, medians, ratios and reports (tools/wssbench/figure.h)."""

from __future__ import annotations

import json
import os
from typing import TextIO


def own_output() -> TextIO:
    """Returns the standard output of this program. All other output, including that of its children, goes to standard error
    after this call."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return output


def put(output: TextIO, result: dict) -> None:
    print(json.dumps(result), file=output, flush=True)


def interrupt(*_) -> None:
    """A handler for SIGTERM, by which wssbench ends the program in order."""
    raise KeyboardInterrupt
