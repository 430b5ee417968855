# SPDX-License-Identifier: Apache-2.0
"""Partitions whose --kv-directory belongs to other options: they refuse to start, and nothing in it is lost."""

import subprocess

import pytest

from .kv import TARGET, Store


def refused(tmp_path, *options):
    done = subprocess.run([TARGET, "--role", "kv", "--listen", f"shm://{tmp_path}/a", "--control", "", *options], capture_output=True,
                          text=True, timeout=20)  # fmt: skip
    assert done.returncode == 1, done
    return done.stderr


@pytest.mark.parametrize("count", [1, 2])
def test_another_number_of_partitions_is_refused(tmp_path, count):
    data = ["--kv-durability", "sync", "--kv-directory", str(tmp_path / "data")]
    with Store("shm", count, tmp_path, data, together=True) as store:
        store.kvctl("put-all", "a=kept", "b=kept")
    others = f"shm://{tmp_path}/a,shm://{tmp_path}/b"
    more = ["--listen", f"shm://{tmp_path}/b", "--kv-map", others, "--kv-partitions", "2"] if count == 1 else ["--kv-map", others]
    why = refused(tmp_path, *data, *more)
    assert "--kv-partitions" in why and str(tmp_path / "data") in why, why
    with Store("shm", count, tmp_path, data, together=True) as store:
        assert store.kvctl("get-all", "a", "b").count("kept") == 2


def test_durable_data_are_refused_with_durability_memory(tmp_path):
    folder = tmp_path / "data"
    with Store("shm", 1, tmp_path, ["--kv-durability", "sync", "--kv-directory", str(folder)]):
        pass
    before = sorted(path.name for path in folder.iterdir())
    for damaged in False, True:
        if damaged:
            next(folder.glob("MANIFEST-*")).write_text("damaged")
        why = refused(tmp_path, "--kv-directory", str(folder))
        assert "--kv-durability" in why, why
    assert sorted(path.name for path in folder.iterdir()) == before
