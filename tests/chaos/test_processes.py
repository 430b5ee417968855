# SPDX-License-Identifier: Apache-2.0
"""Tests how the harness reads the output of the programs under test."""

from __future__ import annotations

from .processes import Process


def test_a_line_that_a_dying_process_did_not_complete_is_ignored(tmp_path):
    process = Process("dying", "client", lambda: ["sh", "-c", "echo whole; printf '{\"cut'"], "", tmp_path)
    process.launch()
    assert process.next_line(20) == "whole"
    assert process.next_line(20) is None
    process.retire()
