# SPDX-License-Identifier: Apache-2.0
"""Tests the metrics of partitions, and two or more partitions in one process."""

import re
import time
import urllib.request

from .kv import Store, wait_until
from .ports import free_port


def samples(port):
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    return {name: float(value) for name, value in re.findall(r"^(wss_kv_\S+) (\S+)$", text, re.M)}


def test_metrics_count_the_operations_of_clients(tmp_path):
    port = free_port()
    with Store("shm", 2, tmp_path, ["--http", f"127.0.0.1:{port}", "--kv-terminate-ms", "100"], together=True) as store:
        workload = {"recordcount": 100, "fieldcount": 1, "fieldlength": 500, "txnlen": 4, "operationcount": 500, "readproportion": 0.5,
                    "updateproportion": 0.5}  # fmt: skip
        result = store.bench(workload, "--fault-every", "20", "--verify", modes=["--one-sided", "on"])
        assert result["CHECK"]["Violations"] == 0
        got = samples(port)
        both = '{partition="0"}', '{partition="1"}'
        for which in both:
            assert got[f"wss_kv_ready{which}"] == 1
            assert got[f"wss_kv_keys{which}"] > 20
            assert got[f"wss_kv_prepares_total{which}"] > 50
            assert got[f"wss_kv_commits_total{which}"] > 50
            assert got[f"wss_kv_arena_used_bytes{which}"] > 0
            assert got[f"wss_kv_request_seconds_count{which}"] >= got[f"wss_kv_prepares_total{which}"]
        assert got['wss_kv_request_seconds_bucket{partition="0",le="+Inf"}'] == got['wss_kv_request_seconds_count{partition="0"}']
        assert got['wss_kv_fallback_gets_total{reason="no_address",partition="0"}'] > 0

        def terminated():
            now = samples(port)
            return (now['wss_kv_prepared{partition="0"}'] == 0 and now['wss_kv_prepared{partition="1"}'] == 0 and
                    sum(value for name, value in now.items() if name.startswith("wss_kv_terminations_total")) > 0)

        wait_until(terminated, 20, "the partial transactions have been terminated")
        # Clients report one-sided reads once a second.
        reads = store.start_bench({**workload, "operationcount": 0, "maxexecutiontime": 4, "readproportion": 1, "updateproportion": 0}, "--phase",
                                  "run", modes=["--one-sided", "on"])  # fmt: skip
        wait_until(lambda: samples(port)['wss_kv_one_sided_keys_total{partition="1"}'] > 1000, 20, "the client has reported its one-sided reads")
        assert reads.wait(30) == 0


def test_partitions_of_one_process_recover_from_their_logs(tmp_path):
    options = ["--kv-durability", "sync", "--kv-directory", str(tmp_path / "data")]
    keys = [f"key{i}" for i in range(20)]
    with Store("tcp", 4, tmp_path, options, together=True) as store:
        assert {one["server"]["partition"] for one in store.info()} == {0, 1, 2, 3}
        store.kvctl("put-all", *[f"{key}=kept" for key in keys])
        store.partitions[0].kill()
        time.sleep(0.1)
        store.partitions[0].start()
        assert store.kvctl("get-all", *keys).count("kept") == 20


def test_partitions_of_one_process_need_an_address_each(tmp_path):
    import subprocess

    from .kv import TARGET

    done = subprocess.run([str(TARGET), "--role", "kv", "--listen", f"shm://{tmp_path}/a", "--kv-map", f"shm://{tmp_path}/a,shm://{tmp_path}/b",
                           "--kv-partitions", "2", "--control", ""], capture_output=True, text=True, timeout=20)  # fmt: skip
    assert done.returncode != 0
    assert "as many addresses" in done.stderr
