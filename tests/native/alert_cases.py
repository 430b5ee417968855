# SPDX-License-Identifier: Apache-2.0
"""For each alert of tools/monitoring/alerts.yaml: series for which it fires, with the times, and series for
which it must not fire."""

from __future__ import annotations

from dataclasses import dataclass, field

INTERVAL_SECONDS = 30
MINUTE = 60
LONG = 400  # number of samples; more than any case needs

TARGET = {"job": "wss-target", "instance": "storage1:9555"}
ENGINE = {"job": "wss-cache", "instance": "cache1:9556"}
CLIENT = {"job": "node", "instance": "client1:9100"}
VOLUME = {**TARGET, "volume": "disk0"}
PARTITION = {**TARGET, "partition": "0"}
SESSION = {**CLIENT, "session": "session0", "target": "10.0.0.1:5555"}
DISK = {**SESSION, "device": "wss0", "volume": "disk0"}

Series = dict[str, str]  # maps the selector of one series to its values in promtool's notation


@dataclass
class Case:
    """With the series `fires`, the alert is pending at `pending` seconds, fires with `labels` at `at`
    seconds, and has ended at `ends` seconds. With each of the series in `quiet`, it does not fire at `at`
    seconds."""

    alert: str
    severity: str
    labels: dict[str, str]
    at: int
    fires: Series
    quiet: list[Series]
    pending: int | None = None
    ends: int | None = None
    expected: dict[str, str] = field(init=False)

    def __post_init__(self):
        self.expected = {**self.labels, "severity": self.severity}


def one(name: str, labels: dict[str, str], values: str) -> Series:
    return {name + "{" + ", ".join(f'{label}="{value}"' for label, value in labels.items()) + "}": values}


def constant(value: float) -> str:
    return f"{value}+0x{LONG}"


def step(before: float, after: float, samples: int = 3) -> str:
    """Returns `samples` samples of one value, followed by samples of another value."""
    return f"{before}+0x{samples - 1} {constant(after)}"


def held(alert: str, severity: str, metric: str, labels: dict[str, str], fires: float, quiet: list[float], seconds: int) -> Case:
    """A case in which the alert fires when a gauge has had a value for `seconds`."""
    return Case(alert, severity, labels, seconds, one(metric, labels, constant(fires)), [one(metric, labels, constant(value)) for value in quiet],
                seconds - INTERVAL_SECONDS)  # fmt: skip


def counted(alert: str, severity: str, metric: str, labels: dict[str, str], window: int, fires: int = 1, quiet: int = 0) -> Case:
    """A case in which the alert fires when a counter has grown by `fires` within `window` seconds, and ends
    one window later."""
    return Case(alert, severity, labels, window, one(metric, labels, step(7, 7 + fires)), [one(metric, labels, step(7, 7 + quiet)), one(metric, labels, constant(7))],
                ends=2 * window + 3 * INTERVAL_SECONDS)  # fmt: skip


GONE = f"5 5 stale _x{LONG}"  # the series was in the previous scrape but is not in this one

CASES = [
    held("WssDown", "critical", "up", TARGET, 0, [1], MINUTE),
    Case("WssDown", "critical", ENGINE, MINUTE, one("up", ENGINE, constant(0)), [one("up", CLIENT, constant(0))], MINUTE // 2),
    Case("WssThreadDoesNotAnswer", "critical", TARGET, 3 * MINUTE, one("wss_sessions", TARGET, GONE) | one("up", TARGET, constant(1)), [
        one("wss_sessions", TARGET, constant(5)) | one("up", TARGET, constant(1)),
        one("wss_sessions", TARGET, GONE) | one("up", TARGET, constant(0)),
        # A cache engine has no sessions.
        one("up", ENGINE, constant(1)),
    ], 3 * MINUTE - INTERVAL_SECONDS),
    held("WssStorageTrouble", "critical", "wss_volume_storage_trouble", VOLUME, 1, [0], MINUTE),
    counted("WssStorageErrors", "warning", "wss_volume_errors_total", VOLUME, 5 * MINUTE),
    counted("WssStorageErrors", "warning", "wss_engine_storage_errors_total", ENGINE, 5 * MINUTE),
    counted("WssLoginsRefused", "warning", "wss_logins_refused_total", {**TARGET, "limit": "channels"}, 15 * MINUTE),
    held("WssSessionsNearLimit", "warning", "wss_sessions", TARGET, 922, [0, 921], 5 * MINUTE),
    held("WssSessionsNearLimit", "warning", "wss_channels", TARGET, 3687, [0, 3686], 5 * MINUTE),
    counted("WssAuthenticationFails", "warning", "wss_block_refused_logins_total", TARGET, 15 * MINUTE, 6, 5),
    counted("WssAuthenticationFails", "warning", "wss_engine_clients_refused_total", ENGINE, 15 * MINUTE, 6, 5),
    counted("WssTlsHandshakesFail", "warning", "wss_tls_handshakes_failed_total", TARGET, 15 * MINUTE, 6, 5),
    held("WssCacheLostBytes", "critical", "wss_cache_lost_bytes", VOLUME, 4096, [0], MINUTE),
    held("WssCacheSingleLines", "critical", "wss_cache_single_lines", VOLUME, 1, [0], 2 * MINUTE),
    held("WssCacheStorageFailing", "critical", "wss_cache_storage_failing", VOLUME, 1, [0], MINUTE),
    held("WssCacheOldestDirtyTooOld", "warning", "wss_cache_oldest_dirty_seconds", VOLUME, 61, [5, 60], 2 * MINUTE),
    Case("WssCacheFullOfDirtyData", "warning", TARGET, 5 * MINUTE,
         one("wss_cache_lines", TARGET, constant(100)) | one("wss_cache_dirty_lines", VOLUME, constant(40))
         | one("wss_cache_dirty_lines", {**TARGET, "volume": "disk1"}, constant(6)), [
             one("wss_cache_lines", TARGET, constant(100)) | one("wss_cache_dirty_lines", VOLUME, constant(45)),
             one("wss_cache_lines", TARGET, constant(0)) | one("wss_cache_dirty_lines", VOLUME, constant(0)),
         ], 5 * MINUTE - INTERVAL_SECONDS),
    held("WssCacheWithoutEngines", "warning", "wss_cache_engines", TARGET, 0, [1], 2 * MINUTE),
    Case("WssCacheEngineLost", "warning", TARGET, 3 * MINUTE + INTERVAL_SECONDS, one("wss_cache_engines", TARGET, step(3, 2)), [
        one("wss_cache_engines", TARGET, constant(2)),
        one("wss_cache_engines", TARGET, step(2, 3)),
        # Another alert reports this state.
        one("wss_cache_engines", TARGET, step(3, 0)),
    ], 3 * MINUTE, ends=63 * MINUTE),
    held("WssCacheRecovering", "critical", "wss_cache_recovering", TARGET, 1, [0], 2 * MINUTE),
    held("WssCacheUnsaved", "critical", "wss_cache_unsaved", TARGET, 1, [0], MINUTE),
    held("WssKvNotReady", "critical", "wss_kv_ready", PARTITION, 0, [1], MINUTE),
    counted("WssKvLogFails", "critical", "wss_kv_log_failures_total", PARTITION, 5 * MINUTE),
    counted("WssKvMemoryFull", "warning", "wss_kv_refused_memory_total", PARTITION, 5 * MINUTE),
    held("WssKvTerminationsWait", "warning", "wss_kv_terminations_waiting", PARTITION, 1, [0], 5 * MINUTE),
    Case("WssKvClientIdsNearlyUsed", "warning", PARTITION, 5 * MINUTE,
         one("wss_kv_client_ids", PARTITION, constant(1000)) | one("wss_kv_client_ids_leased", PARTITION, constant(901)),
         [one("wss_kv_client_ids", PARTITION, constant(1000)) | one("wss_kv_client_ids_leased", PARTITION, constant(900))], 5 * MINUTE - INTERVAL_SECONDS),
    held("WssKvCollectionLags", "warning", "wss_kv_gc_lag_seconds", PARTITION, 61, [0, 60], 10 * MINUTE),
    held("WssDriverSessionNotLive", "critical", "wss_driver_session_live", SESSION, 0, [1], MINUTE),
    Case("WssDriverDiskNotLive", "critical", DISK, MINUTE,
         one("wss_driver_disk_live", DISK, constant(0)) | one("wss_driver_session_live", SESSION, constant(1)), [
             one("wss_driver_disk_live", DISK, constant(1)) | one("wss_driver_session_live", SESSION, constant(1)),
             # Another alert reports the loss of the session.
             one("wss_driver_disk_live", DISK, constant(0)) | one("wss_driver_session_live", SESSION, constant(0)),
         ], MINUTE // 2),
    counted("WssDriverErrors", "warning", "wss_driver_errors_total", SESSION, 5 * MINUTE),
    counted("WssDriverTimeouts", "warning", "wss_driver_timeouts_total", SESSION, 15 * MINUTE),
    held("WssDriverMapsPending", "warning", "wss_driver_pending_maps", CLIENT, 1, [0], 5 * MINUTE),
    # promtool's clock begins at zero.
    Case("WssDriverMetricsOld", "warning", {**CLIENT, "file": "/x/wss.prom"}, 6 * MINUTE + INTERVAL_SECONDS,
         one("node_textfile_mtime_seconds", {**CLIENT, "file": "/x/wss.prom"}, constant(0)), [
             one("node_textfile_mtime_seconds", {**CLIENT, "file": "/x/wss.prom"}, f"0+{INTERVAL_SECONDS}x{LONG}"),
             one("node_textfile_mtime_seconds", {**CLIENT, "file": "/x/wss.prom"}, constant(90)),
             one("node_textfile_mtime_seconds", {**CLIENT, "file": "/x/other.prom"}, constant(0)),
         ], 6 * MINUTE),
    # Some versions of node_exporter omit the folder.
    held("WssDriverMetricsOld", "warning", "node_textfile_mtime_seconds", {**CLIENT, "file": "wss.prom"}, 0, [90], 6 * MINUTE + INTERVAL_SECONDS),
]  # fmt: skip


def firing(alert: str) -> str:
    return f'ALERTS{{alertname="{alert}", alertstate="firing"}}'


def as_tests(cases: list[Case]) -> list[dict]:
    """Converts the cases to the format of `promtool test rules`. They query ALERTS, because exp_alerts would
    repeat each text."""
    tests = []

    def add(what: str, case: Case, series: Series, looks: list[tuple[int, bool]]):
        label_text = ", ".join(f'{label}="{value}"' for label, value in ({"alertname": case.alert, "alertstate": "firing"} | case.expected).items())
        tests.append({
            "name": f"{case.alert} {what}", "interval": f"{INTERVAL_SECONDS}s",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [{"expr": firing(case.alert), "eval_time": f"{seconds}s",
                                  "exp_samples": [{"labels": f"ALERTS{{{label_text}}}", "value": 1}] if fires else []} for seconds, fires in looks],
        })  # fmt: skip

    for case in cases:
        add("fires", case, case.fires, [(at, fires) for at, fires in ((case.pending, False), (case.at, True), (case.ends, False)) if at is not None])
        for number, series in enumerate(case.quiet):
            add(f"is quiet, {number}", case, series, [(case.at, False)])
    return tests
