# SPDX-License-Identifier: Apache-2.0
"""Tests kvctl snapshot: partitions write files to a folder that the operator has configured, and a store can
start from these files."""

import re
import select
import subprocess

import pytest

from .ports import free_port
from .programs import BUILD, START_SECONDS, STOP_SECONDS, run


def free_address() -> str:
    return f"tcp://127.0.0.1:{free_port()}"


class Partitions:
    """Two partitions. `options(index)` returns the options of each."""

    def __init__(self, options):
        self.addresses = [free_address() for _ in range(2)]
        self.options = options
        self.processes = []

    def __enter__(self):
        for index, address in enumerate(self.addresses):
            command = [BUILD / "wss-target", "--role", "kv", "--listen", address, "--kv-map", ",".join(self.addresses),
                       "--kv-partition", index, "--control", "", *self.options(index)]  # fmt: skip
            self.processes.append(subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL))
        for process in self.processes:
            readable, _, _ = select.select([process.stdout], [], [], START_SECONDS)
            assert readable and process.stdout.readline().startswith(b"wss-target: ready")
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise

    def kvctl(self, *words, **how):
        return run(BUILD / "kvctl", "--target", ",".join(self.addresses), *words, **how)


def durable(tmp_path, index):
    return ["--kv-durability", "sync", "--kv-directory", tmp_path / f"data-{index}"]


def test_store_starts_from_a_snapshot_of_complete_transactions(tmp_path):
    keys = [f"key{i}" for i in range(20)]
    with Partitions(lambda index: durable(tmp_path, index)) as store:
        store.kvctl("put-all", *[f"{key}=first" for key in keys])
        said = store.kvctl("snapshot", "monday").stdout
        assert re.search(r"timestamp \d+", said), said
        store.kvctl("put-all", *[f"{key}=second" for key in keys])

    def from_snapshot(index):
        return ["--kv-durability", "sync", "--kv-directory", tmp_path / f"data-{index}.snapshots" / "monday"]

    with Partitions(from_snapshot) as restored:
        said = restored.kvctl("get-all", *keys).stdout
        assert said.count("first") == len(keys) and "second" not in said, said


def test_snapshot_goes_only_to_the_folder_that_the_operator_configured(tmp_path):
    with Partitions(lambda index: []) as store:
        refused = store.kvctl("snapshot", "monday", check=False)
        assert refused.returncode != 0 and "--kv-directory" in refused.stderr, refused
    with Partitions(lambda index: durable(tmp_path, index)) as store:
        for name in ("../outside", "/tmp/outside", ".hidden", "", "monday.partial"):
            assert store.kvctl("snapshot", name, check=False).returncode != 0, name
    assert not (tmp_path / "outside").exists()


@pytest.fixture
def frozen_disk(tmp_path):
    """A file system that can be frozen: all that changes it waits then."""
    image, mount = tmp_path / "disk", tmp_path / "mount"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    mount.mkdir()
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, mount], check=False, capture_output=True).returncode != 0:
        pytest.skip("needs root and loop devices")
    try:
        yield mount
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", mount], check=False, capture_output=True)
        subprocess.run(["umount", "--lazy", mount], check=True)


def test_no_request_waits_for_the_disk_of_a_snapshot(tmp_path, frozen_disk):
    def on_disk(index):
        folder = frozen_disk / str(index)
        folder.mkdir()
        (tmp_path / f"data-{index}.snapshots").symlink_to(folder)
        return durable(tmp_path, index)

    with Partitions(on_disk) as store:
        subprocess.run(["fsfreeze", "--freeze", frozen_disk], check=True)
        command = [BUILD / "kvctl", "--target", ",".join(store.addresses), "--timeout", "120", "snapshot", "monday"]
        snapshot = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            for turn in range(10):
                store.kvctl("put", f"key-{turn}", "value")
                assert "value" in store.kvctl("get", f"key-{turn}").stdout
            assert snapshot.poll() is None, snapshot.communicate()
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", frozen_disk], check=True)
        said, errors = snapshot.communicate(timeout=120)
        assert snapshot.returncode == 0 and "timestamp" in said, errors
