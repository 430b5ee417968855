# SPDX-License-Identifier: Apache-2.0
"""The status page shows a problem in each state in which an alert of tools/monitoring/alerts.yaml fires, and with the same
severity."""

import copy
import json
import re
import urllib.request
from pathlib import Path

import pytest

from tests.native.ports import free_port

from .programs import Pages, address

ALERTS = Path(__file__).resolve().parents[2] / "tools/monitoring/alerts.yaml"
ELSEWHERE = {
    "WssDown": "test_page_reports_a_program_that_does_not_answer_and_resumes_when_it_does",
    "WssCacheEngineLost": "test_page_shows_a_load_and_a_killed_engine",
}
# For each alert: the program, changed values in its responses, and the problem that the page must show.
STATES = [
    ("WssThreadDoesNotAnswer", "target", {"stats.sessions": {"error": "reactor-0 has not answered"}}, "Sessions: reactor-0 has not answered"),
    ("WssStorageTrouble", "target", {"volumes.0.trouble": "waits for Ceph"}, "Volume disk: waits for Ceph"),
    ("WssStorageErrors", "engine", {"stats.engine.counters.storage_errors": 1}, "1 operation of storage failed since "),
    ("WssLoginsRefused", "target", {"stats.sessions.refused_name_sessions": 2}, "2 logins refused at the limit of sessions per name since "),
    ("WssSessionsNearLimit", "target", {"stats.sessions.sessions": 922}, "922 of 1024 sessions are in use"),
    ("WssSessionsNearLimit", "target", {"stats.sessions.channels": 3687}, "3687 of 4096 channels are in use"),
    ("WssAuthenticationFails", "target", {"stats.block.refused_logins": 6}, "6 logins failed authentication since "),
    ("WssAuthenticationFails", "engine", {"stats.engine.counters.clients_refused": 6}, "6 clients failed authentication since "),
    ("WssTlsHandshakesFail", "target", {"stats.tls.handshakes_failed": 6}, "6 TLS handshakes failed since "),
    ("WssCacheLostBytes", "target", {"stats.cache.volumes.0.lost_bytes": 4096}, "Volume disk: 4\u202fKiB of acknowledged writes have been in no present engine"),
    ("WssCacheSingleLines", "target", {"stats.cache.volumes.0.single_lines": 1}, "Volume disk: the loss of one more engine loses 1 dirty line with one copy"),
    ("WssCacheStorageFailing", "target", {"stats.cache.volumes.0.error": "no space"}, "Volume disk: no space"),
    ("WssCacheOldestDirtyTooOld", "target", {"stats.cache.volumes.0.oldest_dirty_ms": 61000}, "Volume disk: dirty data has waited for storage for 1\u202fmin"),
    ("WssCacheFullOfDirtyData", "target", {"stats.cache.lines": 100, "stats.cache.dirty_lines": 46}, "46\u202f% of the lines of the cache are dirty"),
    ("WssCacheWithoutEngines", "target", {"stats.cache.engines": []}, "No cache engine has joined"),
    ("WssCacheRecovering", "target", {"stats.cache.recovering": True}, "The cache is recovering"),
    ("WssCacheUnsaved", "target", {"stats.cache.trouble": "no space left"}, "Writes wait: the state of the cache cannot be saved: no space left"),
    ("WssKvNotReady", "target", {"stats.kv.server.ready": False}, "Partition 0 does not serve clients yet"),
    ("WssKvLogFails", "target", {"stats.kv.memory.log_failures": 1}, "Partition 0: 1 write of its log failed"),
    ("WssKvMemoryFull", "target", {"stats.kv.memory.refused_memory": 3}, "Partition 0: 3 writes refused, as memory is full since "),
    ("WssKvTerminationsWait", "target", {"stats.kv.ramp.terminations_waiting": 1}, "Partition 0: 1 transaction waiting for a partition"),
    ("WssKvClientIdsNearlyUsed", "target", {"stats.kv.server.client_ids": 100, "stats.kv.server.client_ids_leased": 91}, "Partition 0: 91 of 100 client ids"),
    ("WssKvCollectionLags", "target", {"stats.kv.ramp.gc_lag_us": 61e6}, "Partition 0: old versions are collected 1\u202fmin 1\u202fs late"),
]


def alerts():
    """Returns the severity of each alert, except those of clients, which have no page."""
    text = ALERTS.read_text().split("- name: wss-clients")[0]
    return dict(re.findall(r"- alert: (\w+)\n.*?severity: (\w+)", text, re.S))


def answer(port, method):
    with urllib.request.urlopen(f"{address(port)}api/v1/{method}", timeout=30) as answered:
        return json.load(answered)


def changed(sample, changes):
    """Returns the sample with a new value at each path, which must exist."""
    sample = copy.deepcopy(sample)
    for path, value in changes.items():
        *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        at = sample
        for step in way:
            at = at[0] if step == "server" and isinstance(at, list) else at[step]
        assert isinstance(last, int) or last in at, f"{path}: no program's response has this path"
        at[last] = value
    return sample


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    with Pages(tmp_path_factory.mktemp("problems"), more=["--kv-listen", f"tcp://127.0.0.1:{free_port()}"]) as cluster:
        found = {}
        for name, port in (("target", cluster.http), ("engine", cluster.engines[0].http)):
            found[name] = {"ping": answer(port, "ping"), "stats": answer(port, "stats"), "sessions": {}}
        found["target"]["volumes"] = answer(cluster.http, "volume/list")
        yield cluster, found


def test_page_has_a_problem_for_each_alert_of_a_program():
    assert {alert for alert, *_ in STATES} | set(ELSEWHERE) == set(alerts())


@pytest.mark.parametrize("alert, program, changes, text", STATES, ids=[f"{alert}-{program}" for alert, program, *_ in STATES])
def test_page_shows_a_problem_when_an_alert_fires(page, samples, alert, program, changes, text):
    cluster, found = samples
    shown = page(address(cluster.http))
    before = found[program]
    problems = f"""(async (before, now) => {{
        const {{ problemsOf }} = await import("/page/problems.js"), {{ Growth }} = await import("/page/growth.js");
        const growth = new Growth(), state = {{ gone: new Map(), failures: new Map(), growth }};
        growth.note(before.stats, undefined, new Date(Date.now() - 1000));
        const earlier = problemsOf(before, state);
        growth.note(now.stats, before.stats, new Date());
        const later = problemsOf(now, state);
        growth.note(now.stats, now.stats, new Date(Date.now() + 15 * 60000 + 1000));
        return [earlier, later, growth.problems()];
    }})({json.dumps(before)}, {json.dumps(changed(before, changes))})"""
    earlier, later, after = shown.value(problems)
    assert earlier == [] and after == []
    [problem] = later
    assert text in problem["text"]
    assert problem["severity"] == {"critical": "bad", "warning": "warning"}[alerts()[alert]]
