# SPDX-License-Identifier: Apache-2.0
"""System tests use the lab's fixtures (tests/lab/fixtures.py).

In `make check`, all of them together may take a few minutes. The files in LONG run only in `make check-all`
(WSS_THOROUGH=1) or when they are named (`make check-system FILTER=…`). If `make check` has a limit
(WSS_CHECK_MINUTES), tests that did not start three minutes before it are skipped, and their number is printed.
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pytest

from tests.lab.fixtures import *  # noqa: E402,F401,F403  (pytest finds fixtures by name in this module)

LONG = {
    "test_block_crash.py",
    "test_busy_device_requeues.py",
    "test_cache_machines.py",
    "test_cache_storage.py",
    "test_connect_and_disconnect_under_load.py",
    "test_cpu_hotplug.py",
    "test_device_removed_under_load.py",
    "test_every_mode_moves_the_same_data.py",
    "test_fewer_queues_at_first.py",
    "test_file_systems.py",
    "test_forced_unmap_of_mounted_disk.py",
    "test_hardware_kit.py",
    "test_hung_target_steps.py",
    "test_interop.py",
    "test_kernel_tls_sessions.py",
    "test_kv_modes.py",
    "test_lab.py",
    "test_lab_command.py",
    "test_polled_io.py",
    "test_rdma_devices.py",
    "test_repeated_map_and_unmap.py",
    "test_resume.py",
    "test_schedulers.py",
    "test_stock_target.py",
    "test_stuck_storage_is_reset.py",
    "test_target_killed_under_load.py",  # test_block_lost_target.py covers it in make check
    "test_troubleshooting.py",
    "test_unmap_while_others_wait.py",
    "test_volume_deleted_under_load.py",  # test_block_volumes.py covers it in make check
    "test_volumes_created_and_deleted_under_load.py",
    "test_wssbench_driver.py",
}


def pytest_collection_modifyitems(config, items):
    if os.environ.get("WSS_THOROUGH") or config.option.keyword or any(".py" in word for word in config.args):
        return
    config.hook.pytest_deselected(items=[item for item in items if item.path.name in LONG])
    items[:] = [item for item in items if item.path.name not in LONG]


LATEST_START = float(os.environ.get("WSS_CHECK_ENDS", "inf")) - 180  # in seconds since 1970
NOT_RUN = pytest.StashKey[list[str]]()


def pytest_configure(config):
    config.stash[NOT_RUN] = []


@pytest.hookimpl(tryfirst=True)  # before fixtures, which may boot a machine
def pytest_runtest_setup(item):
    if time.time() > LATEST_START:
        item.config.stash[NOT_RUN].append(item.name)
        pytest.skip("the limit of this check is near")


def pytest_terminal_summary(terminalreporter, config):
    if tests := config.stash[NOT_RUN]:
        terminalreporter.write_line("")
        terminalreporter.write_line(f"NOT RUN: {len(tests)} system tests, from {tests[0]} on")
