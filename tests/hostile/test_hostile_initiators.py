# SPDX-License-Identifier: Apache-2.0
"""Hostile initiators and HTTP clients send invalid input to a running target for a limited time. The target must not crash or
hang, no sanitizer may report an error, and a good client must be able to verify all its writes at the same time."""

from __future__ import annotations

import http.client
import random
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.hostile.noise import noise, slow_requests
from tests.hostile.setup import (ROUNDS_MAX, SEED, Attack, answer, check_log, lacks, memory_mib, share, target_with_good_volume,
                                 verifying)
from tests.native.certificates import Authority
from tests.native.fio import fio
from tests.native.ports import free_port
from tests.native.programs import Nbd

DURATION = share(0.3)
# More than the HTTP port has places for (48). Only requests for health get one of the remaining 16.
SLOW_CLIENTS = 52
# With fewer operations, the attack is too weak to be a test.
LEAST = {"logins": 30, "refused": 5, "messages": 2000, "answers": 500, "closed_by_target": 10, "accesses_refused": 1, "immediates": 1,
         "tcp_connections": 10, "tls_connections": 10, "handshakes_failed": 5, "http_connections": 10, "http_answers": 1,
         "unix_connections": 10, "unix_answers": 1, "slow_requests": SLOW_CLIENTS, "requests_without_place": 1, "verified": 200}


def test_hostile_initiators_affect_no_other_initiator(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path / "certificates").issue("target")
    tls, port = f"tls://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    target = target_with_good_volume(tmp_path, "tcp://127.0.0.1:0", "--reactors", "2", "--listen", tls, "--tls-cert", str(certificate),
                                     "--tls-key", str(key), "--http", port.removeprefix("http://"))
    control = tmp_path / "control.sock"
    with target:
        good = Nbd(target.address, "good", tmp_path / "nbd", {}).start()
        try:
            attack_beside_a_good_client(target, (target.address, tls, port, f"unix://{control}"), good, control)
        finally:
            good.stop()
        log = (tmp_path / "nbd/log").read_text()
        assert "lost" not in log, log
    check_log(target.log)


def has_place(port: str) -> bool:
    try:
        with urllib.request.urlopen(f"{port}/api/v1/ping", timeout=10):
            return True
    except (OSError, http.client.HTTPException):
        return False


def read_health(port: str, until: float) -> tuple[list[float], int]:
    """Repeatedly reads the health. Returns the seconds that each answer took, and how often another request was refused."""
    seconds, refused = [], 0
    while time.monotonic() < until:
        begin = time.monotonic()
        with urllib.request.urlopen(f"{port}/livez", timeout=10) as alive:
            assert alive.read() == b"ok\n"
        seconds.append(time.monotonic() - begin)
        refused += not has_place(port)
        time.sleep(0.1)
    return seconds, refused


def attack_once(target, addresses: tuple[str, ...], good: Nbd, seed: int, health: list[float]) -> Counter:
    """All attacks at once. Returns the numbers of operations, and adds the seconds of answers about the health to `health`."""
    port, until = addresses[2], time.monotonic() + DURATION
    with Attack("srp", target.address, DURATION, seed=seed) as attack, verifying(good, DURATION) as job, ThreadPoolExecutor() as pool:
        noises = [pool.submit(noise, address, until, random.Random(seed)) for address in addresses]
        slow = pool.submit(slow_requests, port, until, SLOW_CLIENTS)
        alive = pool.submit(read_health, port, until)
        noised: Counter = Counter()
        for address, each in zip(addresses, noises):
            scheme = address.partition(":")[0]
            noised[f"{scheme}_connections"], noised[f"{scheme}_answers"] = each.result()
        assert target.process.poll() is None, target.log.read_text()[-8000:]
        done = attack.counts() + noised
    done["slow_requests"] = slow.result()
    done["verified"] = job["read"]["total_ios"]
    seconds, done["requests_without_place"] = alive.result()
    health += seconds
    return done


def attack_beside_a_good_client(target, addresses: tuple[str, ...], good: Nbd, control: Path) -> None:
    first = memory_mib(target.process.pid)
    done: Counter = Counter()
    health: list[float] = []
    for number in range(ROUNDS_MAX):
        done += attack_once(target, addresses, good, SEED + number, health)
        done["handshakes_failed"] = answer(control, "stats")["target"]["tls"]["handshakes_failed"]
        if not lacks(done, LEAST):
            break
    grown = memory_mib(target.process.pid) - first
    print(f"{dict(done)}; health: {len(health)} answers, the slowest after {max(health):.2f} s; memory grew by {grown} MiB")
    assert not lacks(done, LEAST), done
    assert done["accesses_granted"] == 0, done
    # Each answer has ten seconds, which a busy machine may need.
    assert sorted(health)[len(health) // 2] < 1, health
    # AddressSanitizer keeps 256 MiB of freed memory.
    assert grown < 600, f"the target grew by {grown} MiB"
    # The target must release the sessions of all attackers. The good client is still connected.
    deadline = time.monotonic() + 30
    while len(sessions := answer(control, "session", "list")["sessions"]) > 1:
        assert time.monotonic() < deadline, sessions
        time.sleep(0.1)
    assert sessions[0]["counters"]["violations"] == 0, sessions
    fio(good.uri, {"rw": "randwrite", "bs": "16k", "size": "4m", "iodepth": 4, "verify": "crc32c", "verify_fatal": 1})
