# SPDX-License-Identifier: Apache-2.0
"""A volume keeps its LUN across restarts, regardless of other volumes."""

from .cache_cluster import ask
from .programs import Target


def test_volumes_keep_their_luns_when_others_are_missing_or_reordered_or_added_or_deleted(tmp_path):
    control, state = tmp_path / "control.sock", tmp_path / "state.json"
    images = {name: f"aio:{tmp_path}/{name}.img,size=1M,create" for name in "abcdef"}

    def start(names):
        return Target(f"shm://{tmp_path}/serve", {name: images[name] for name in names}, tmp_path, "--control", str(control),
                      "--auth-off", "--state", str(state))

    def identities():
        return {volume["name"]: (volume["lun"], volume["wwid"]) for volume in ask(control, "volume.list")}

    with start("abc"):
        first = identities()
        assert [first[name][0] for name in "abc"] == [0, 1, 2]
        ask(control, "volume.create", name="run", backend=f"aio:{tmp_path}/run.img", size="1M", create=True)
        ask(control, "volume.create", name="gone", backend=f"aio:{tmp_path}/gone.img", size="1M", create=True)
        first = identities()
        ask(control, "volume.delete", name="gone")
    with start("cb"):
        now = identities()
        assert now == {name: first[name] for name in ("b", "c", "run")}, "the volume before them is missing, and their order has changed"
    (tmp_path / "run.img").rename(tmp_path / "elsewhere.img")
    with start("dec"):
        now = identities()
        assert now["c"] == first["c"]
        taken = {lun for name, (lun, _) in first.items() if name != "gone"}
        assert not taken & {now["d"][0], now["e"][0]}, "a missing volume must keep its LUN"
        ask(control, "volume.create", name="late", backend="ram:1M")
        assert identities()["late"][0] not in taken
        later = identities()
    (tmp_path / "elsewhere.img").rename(tmp_path / "run.img")
    with start("edcba"):
        now = identities()
        for name in ("a", "b", "c", "run"):
            assert now[name] == first[name]
        for name in ("d", "e"):
            assert now[name] == later[name]
        assert now["late"][0] == later["late"][0]


def test_volumes_keep_their_luns_after_the_target_is_killed(tmp_path):
    control, state = tmp_path / "control.sock", tmp_path / "state.json"

    def start(volumes):
        return Target(f"shm://{tmp_path}/serve", volumes, tmp_path, "--control", str(control), "--auth-off", "--state", str(state))

    volumes = {name: "ram:1M" for name in "abc"}
    with start(volumes) as target:
        luns = {volume["name"]: volume["lun"] for volume in ask(control, "volume.list")}
        target.kill()
    del volumes["a"]
    with start(volumes) as target:
        assert {volume["name"]: volume["lun"] for volume in ask(control, "volume.list")} == {"b": luns["b"], "c": luns["c"]}
        target.kill()
