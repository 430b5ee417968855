# SPDX-License-Identifier: Apache-2.0
"""Hostile initiators send invalid messages to a running target for a limited time. The target must not crash
or hang, and no sanitizer may report an error. At the same time, a good client must be able to verify all its
writes. Run it with `make MODE=asan check-hostile`."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.hostile.noise import noise
from tests.native import programs
from tests.native.certificates import Authority
from tests.native.fio import fio
from tests.native.ports import free_port
from tests.native.programs import Nbd, run

HOSTILE = Path(os.environ.get("WSS_HOSTILE_BUILD", "build/asan")).resolve()
SECONDS = int(os.environ.get("WSS_ATTACK_SECONDS", "30"))
SEED = int(os.environ.get("WSS_ATTACK_SEED", str(int(time.time()))))
# Hostile initiators use smaller LUNs, so the volume contains only data of the good client.
GOOD_LUN = 5000
STATE = {"format": "wss-target-state", "version": 1,
         "volumes": [{"name": "good", "lun": GOOD_LUN, "wwid": "123456789abcdef", "declared": True}]}


def memory_mib(pid: int) -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) >> 10


def answer(control: Path, *words: str) -> dict:
    return json.loads(run(HOSTILE / "wssctl", "--control", control, "--json", *words).stdout)


def test_hostile_initiators_affect_no_other_initiator(tmp_path: Path, monkeypatch) -> None:
    print(f"seed {SEED}")
    monkeypatch.setattr(programs, "TARGET", HOSTILE / "wss-target")
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:exitcode=99:allocator_may_return_null=0")
    monkeypatch.setenv("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1:exitcode=99")
    control, state = tmp_path / "control.sock", tmp_path / "state.json"
    state.write_text(json.dumps(STATE))
    # A volume that is in the state file is not created again, so its image must exist.
    with (tmp_path / "good.img").open("wb") as image:
        image.truncate(64 << 20)
    config = tmp_path / "wss.toml"
    config.write_text(f'control = "{control}"\nstate = "{state}"\nlog_level = "error"\n')
    volumes = {"scratch": "ram:16M", "file": f"aio:{tmp_path}/scratch.img,size=16M,create",
               "good": f"aio:{tmp_path}/good.img"}
    certificate, key = Authority(tmp_path / "certificates").issue("target")
    tls, port = f"tls://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    target = programs.Target("tcp://127.0.0.1:0", volumes, tmp_path, "--config", str(config), "--reactors", "2", "--listen", tls,
                             "--tls-cert", str(certificate), "--tls-key", str(key), "--http", port.removeprefix("http://"))
    del target.command[(at := target.command.index("--control")):at + 2]
    with target:
        luns = {volume["name"]: volume["lun"] for volume in answer(control, "volume", "list")}
        assert luns == {"scratch": 0, "file": 1, "good": GOOD_LUN}
        good = Nbd(target.address, "good", tmp_path / "nbd", {}).start()
        try:
            attack_beside_a_good_client(target, (target.address, tls, port), good, control)
            with urllib.request.urlopen(f"{port}/livez", timeout=30) as alive:
                assert alive.read() == b"ok\n"
        finally:
            good.stop()
        log = (tmp_path / "nbd/log").read_text()
        assert "lost" not in log, log
    said = target.log.read_text()
    assert "Sanitizer" not in said and "runtime error" not in said, said[-8000:]


def attack_beside_a_good_client(target: programs.Target, addresses: tuple[str, ...], good: Nbd, control: Path) -> None:
    until = time.monotonic() + SECONDS
    first = memory_mib(target.process.pid)
    attack = subprocess.Popen([HOSTILE / "wss-attack", target.address, str(SECONDS), str(SEED)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    verifying = subprocess.Popen(
        ["fio", "--name=good", "--ioengine=nbd", f"--uri={good.uri}", "--rw=randwrite", "--bssplit=4k/50:16k/30:128k/20",
         "--iodepth=8", "--size=48m", "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=64", "--verify_state_save=0",
         "--time_based", f"--runtime={SECONDS}", "--output-format=json"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        with ThreadPoolExecutor() as pool:
            connections = min(pool.map(lambda address: noise(address, until, random.Random(SEED)), addresses))
        assert target.process.poll() is None, target.log.read_text()[-8000:]
        said, complaint = attack.communicate(timeout=90)
        assert attack.returncode == 0, (said, complaint, target.log.read_text()[-8000:])
        output, _ = verifying.communicate(timeout=90)
        assert verifying.returncode == 0, output[-3000:]
        job = json.loads(output[output.index("{\n"):])["jobs"][0]
    finally:
        for process in (attack, verifying):
            process.kill()
            process.communicate()
    done = json.loads(said)
    grown = memory_mib(target.process.pid) - first
    print(f"{done}, {job['read']['total_ios']} reads verified beside it, memory grew by {grown} MiB")
    # With smaller numbers, the attack would be too weak to be a test.
    assert connections > SECONDS
    assert answer(control, "stats")["target"]["tls"]["handshakes_failed"] > SECONDS
    assert done["messages"] > 500 * SECONDS and done["answers"] > 100 * SECONDS and done["logins"] > 3 * SECONDS, done
    assert done["refused"] > 0 and done["closed_by_target"] > SECONDS, done
    assert job["read"]["total_ios"] > 10 * SECONDS, job["read"]
    # AddressSanitizer keeps 256 MiB of freed memory, so some growth is normal.
    assert grown < 600, f"the target grew by {grown} MiB"
    # The target must release the sessions of all attackers. The good client is still connected.
    deadline = time.monotonic() + 30
    while len(sessions := answer(control, "session", "list")["sessions"]) > 1:
        assert time.monotonic() < deadline, sessions
        time.sleep(0.1)
    assert sessions[0]["counters"]["violations"] == 0, sessions
    fio(good.uri, {"rw": "randwrite", "bs": "16k", "size": "4m", "iodepth": 4, "verify": "crc32c", "verify_fatal": 1})
