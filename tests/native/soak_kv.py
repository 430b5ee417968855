# SPDX-License-Identifier: Apache-2.0
"""`make soak-kv`: checks the isolation of each mode of the key-value store over a given number of operations,
without a VM.

Each mode runs over each fabric in turn, with four threads. A transaction has 8 keys from a Zipfian
distribution. Half of the transactions write. Every read and write is checked during the run. Finished results
are kept in build/soak/kv.json. A later run skips what they cover, unless --again is given.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
KEYS = 8


def say(text: str) -> None:
    print(f"soak-kv: {text}", file=sys.stderr, flush=True)


def one(scheme: str, mode: str, operations: int) -> dict:
    from tests.native.kv import Store
    from tests.native.test_kv_isolation import CONTENDED, MODES

    transactions = -(-operations // KEYS)
    properties = {**CONTENDED, "operationcount": transactions, "status.interval": 30}
    words = [word for name, value in properties.items() for word in ("-p", f"{name}={value}")]
    with tempfile.TemporaryDirectory(prefix="wss-soak-kv-") as directory, Store(scheme, 4, Path(directory)) as store:
        started = time.monotonic()
        # Standard error is inherited, because it shows the progress.
        done = subprocess.run(store.command("--json", "bench", *words, "--verify", "--status", modes=["--timeout", "60", *MODES[mode]]),
                              stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)  # fmt: skip
        if done.returncode not in (0, 6) or not done.stdout:
            raise RuntimeError(f"kvctl exited with status {done.returncode}\n{store.logs()}")
        result = json.loads(done.stdout.splitlines()[-1])
    return {"scheme": scheme, "mode": mode, "operations": result["operations"] * KEYS, "failed": result["failed"], "seconds": round(time.monotonic() - started),
            "violations": result["CHECK"]["Violations"], "fractured": result["CHECK"]["FracturedReads"], "reads": result["CHECK"]["Reads"],
            "writes": result["CHECK"]["Writes"], "restarts": result["KV"]["Restarts"], "lock_conflicts": result["KV"]["LockConflicts"]}  # fmt: skip


def held(row: dict) -> bool:
    return row["violations"] == 0 and row["fractured"] == 0 and row["failed"] == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--operations", type=int, default=10_000_000, help="reads and writes of keys in each mode over each fabric")
    parser.add_argument("--only", action="append", metavar="WORD", help="run only combinations with this word in SCHEME/MODE; repeatable")
    parser.add_argument("--again", action="store_true", help="repeat what an earlier run has finished")
    parser.add_argument("--out", type=Path, default=Path("build/soak/kv.json"))
    options = parser.parse_args()
    os.environ["WSS_BUILD"] = str(options.build.resolve())
    from tests.native.test_kv_isolation import MODES  # this module reads the build directory when it is
                                                      # imported

    options.out.parent.mkdir(parents=True, exist_ok=True)
    rows = json.loads(options.out.read_text()) if options.out.exists() else []
    wanted = [(scheme, mode) for mode in MODES for scheme in ("shm", "tcp")
              if not options.only or any(word in f"{scheme}/{mode}" for word in options.only)]  # fmt: skip
    good = True
    for scheme, mode in wanted:
        before = [row for row in rows if (row["scheme"], row["mode"]) == (scheme, mode) and row["operations"] >= options.operations and held(row)]
        if before and not options.again:
            say(f"{scheme} {mode}: {before[-1]['operations']:,} operations held before")
            continue
        say(f"{scheme} {mode}: {options.operations:,} operations")
        row = one(scheme, mode, options.operations)
        rows.append(row)
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
        good = good and held(row)
        say(f"{scheme} {mode}: {'held' if held(row) else 'DID NOT HOLD'}: {row}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
