# SPDX-License-Identifier: Apache-2.0
"""Hostile initiators over RDMA beside a good one: arbitrary messages, accesses with guessed keys, arbitrary immediates, and
initiators that accept no data. `make check-hostile` runs the same attacks over tcp and shm, under sanitizers."""

from __future__ import annotations

import json

import pytest

from tests.hostile.setup import GOOD_LUN, SEED, STATE
from tests.lab.vm import Vm
from tests.system.block_setup import RUN, Target

SECONDS = 10
VERIFY = ("fio --name=good --ioengine=nbd --uri=$uri --rw=randwrite --bs=16k --iodepth=4 --size=8m --verify=crc32c --verify_fatal=1 "
          f"--verify_backlog=16 --verify_state_save=0 --time_based --runtime={SECONDS} --output-format=json --output={RUN}/fio.json")


@pytest.mark.parametrize("attack", ["srp", "slow"])
def test_hostile_initiators_over_rdma_affect_no_other_initiator(vm: Vm, lab_say, attack: str) -> None:
    state = f"{RUN}/hostile.json"
    vm.run(f"mkdir -p {RUN} && truncate -s 16M {RUN}/good.img")
    vm.write(state, json.dumps(STATE))
    volumes = {"scratch": "ram:16M", "file": "ram:16M", "good": f"aio:{RUN}/good.img"}
    with Target(vm, volumes, "--log-level error", state=state) as target:
        assert [volume["lun"] for volume in target.ask("volume list") if volume["name"] == "good"] == [GOOD_LUN]
        good = vm.start(f"nbdkit -U {RUN}/nbd-{attack} $BUILD/nbdkit-wss-plugin.so target=rdma://{target.address} volume=good --run '{VERIFY}'")
        said = vm.run(f"$BUILD/wss-attack {attack} rdma://{target.address} {SECONDS} {SEED}", timeout=120, check=False)
        result = good.wait(120)
        assert said.status == 0, (SEED, said.stdout, said.stderr)
        assert result.status == 0, result.stderr
        done, verified = json.loads(said.stdout), json.loads(vm.run(f"cat {RUN}/fio.json").stdout)["jobs"][0]["read"]["total_ios"]
        lab_say(f"{attack}, seed {SEED}: {done}, {verified} reads verified")
        assert verified > 20
        if attack == "slow":
            assert done["logins"] > 1 and done["reads"] > 50, done  # others may exceed the time limit of a connect request
        else:
            assert done["logins"] > SECONDS and done["messages"] > 10 * SECONDS and done["answers"] > SECONDS, done
            assert done["accesses_refused"] > 0 and done["immediates"] > 0 and "accesses_granted" not in done, done
        assert target.process.running
