#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the dashboards for Grafana in dashboards/ from the lists below.

Usage: tools/monitoring/dashboards.py [--check]

The files are in the tree so that they can be imported without this program. With --check it changes nothing,
and fails if a file is out of date. Each panel answers a question of an operator, and its description states
the next step.
"""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "dashboards"
COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
RATE = "[$__rate_interval]"
# Selectors. By default each variable selects all its values.
TARGET = 'instance=~"$instance"'
VOLUME = 'instance=~"$instance", volume=~"$volume"'
ENGINE = 'instance=~"$engine"'
PARTITION = 'instance=~"$instance", partition=~"$partition"'
CLIENT = 'instance=~"$instance"'
RED_ABOVE_0 = ((None, "green"), (0.000001, "red"))
QUANTILES = (0.5, 0.99, 0.999)


@dataclass
class Panel:
    title: str
    description: str
    queries: list[tuple[str, str]]  # expression, legend
    unit: str = "short"
    width: int = 12
    height: int = 8
    kind: str = "timeseries"
    steps: tuple = ((None, "green"),)  # pairs of a value and the colour from this value upwards
    line: bool = False  # the steps are lines in the graph
    most: float | None = None  # end of the axis


@dataclass
class Dashboard:
    uid: str
    title: str
    description: str
    variables: list[tuple[str, str, str]]  # name, label, query
    rows: list[list[Panel]] = field(default_factory=list)


def stat(title, description, expression, unit="short", steps=RED_ABOVE_0, width=4, legend=""):
    return Panel(title, description, [(expression, legend)], unit, width, 4, "stat", steps)


def per_second(metric, selector, by, legend):
    return f"sum by ({by}) (rate({metric}{{{selector}}}{RATE}))", legend


def latency(title, description, metric, selector):
    return Panel(title, description, [
        (f"histogram_quantile({quantile}, sum by (le) (rate({metric}_bucket{{{selector}}}{RATE})))", f"p{quantile * 100:g}")
        for quantile in QUANTILES
    ], "s")  # fmt: skip


TARGET_DASHBOARD = Dashboard("wss-target", "WSS / Target", "Volumes, latency, sessions and errors of wss-target", [
    ("instance", "Target", "label_values(wss_sessions, instance)"),
    ("volume", "Volume", 'label_values(wss_volume_reads_total{instance=~"$instance"}, volume)'),
], [
    [
        stat("Targets", "Targets that Prometheus can scrape. If some are missing, see alert WssDown.", f"count(wss_sessions{{{TARGET}}})",
             steps=((None, "red"), (1, "green"))),
        stat("Volumes in trouble", "Volumes whose requests wait for storage. wssctl volume list has the reason; Documentation/ceph.md, Errors.",
             f"sum(wss_volume_storage_trouble{{{VOLUME}}})"),
        stat("Storage errors", "Failed operations of real storage in the time range shown. See the target's kernel log, smartctl, ceph -s.",
             f"sum(increase(wss_volume_errors_total{{{VOLUME}}}[$__range]))"),
        stat("Logins refused", "In the time range shown: a limit was reached, or authentication failed. The graph below has the reasons.",
             f"sum(increase(wss_logins_refused_total{{{TARGET}}}[$__range])) + "
             f"sum(increase(wss_block_refused_logins_total{{{TARGET}}}[$__range]))",
             steps=((None, "green"), (0.000001, "orange"))),
        stat("Sessions", "Of 1024 that a target can have.", f"max(wss_sessions{{{TARGET}}})", steps=((None, "green"), (921, "orange"), (1024, "red"))),
        stat("Channels", "Of 4096 that a target can have.", f"max(wss_channels{{{TARGET}}})", steps=((None, "green"), (3686, "orange"), (4096, "red"))),
    ],
    [
        Panel("Throughput", "Bytes that clients read and write, including those that cache engines transfer.", [
            per_second("wss_volume_read_bytes_total", VOLUME, "volume", "{{volume}} read"),
            per_second("wss_volume_written_bytes_total", VOLUME, "volume", "{{volume}} written")], "Bps"),
        Panel("Operations", "Of clients, per second.", [
            per_second("wss_volume_reads_total", VOLUME, "volume", "{{volume}} read"),
            per_second("wss_volume_writes_total", VOLUME, "volume", "{{volume}} write"),
            per_second("wss_volume_flushes_total", VOLUME, "volume", "{{volume}} flush")], "iops"),
    ],
    [
        latency("Latency of reads", "From the arrival of a command to its response, without the network, over all volumes. Buckets are powers of two, "
                "so the true value is between half of the value shown and that value. Cache hits are included.",
                "wss_block_request_seconds", f'{TARGET}, operation="read"'),
        latency("Latency of writes", "From the arrival of a command to its response, over all volumes. If the disk's latency is also high, storage is slow. "
                "If it is not, the volume is at its limits, or the target has too little CPU time.",
                "wss_block_request_seconds", f'{TARGET}, operation="write"'),
    ],
    [
        Panel("Use of the IOPS limit", "Share of wssctl volume set --iops that clients use. At 100 %, commands wait. Volumes without a limit are not shown.", [
            (f"sum by (volume) (rate(wss_volume_reads_total{{{VOLUME}}}{RATE}) + rate(wss_volume_writes_total{{{VOLUME}}}{RATE})) / "
             f"sum by (volume) (wss_volume_limit_iops{{{VOLUME}}} > 0)", "{{volume}}")],
            "percentunit", 8, steps=((None, "green"), (0.95, "orange")), line=True),
        Panel("Use of the bandwidth limit", "Share of wssctl volume set --bandwidth that clients use.", [
            (f"sum by (volume) (rate(wss_volume_read_bytes_total{{{VOLUME}}}{RATE}) + rate(wss_volume_written_bytes_total{{{VOLUME}}}{RATE})) / "
             f"sum by (volume) (wss_volume_limit_bytes_per_second{{{VOLUME}}} > 0)", "{{volume}}")],
            "percentunit", 8, steps=((None, "green"), (0.95, "orange")), line=True),
        Panel("Delay by the limits", "Time per second that commands wait because of their volume's limits. 2 s means that two commands are waiting at all times.", [
            per_second("wss_volume_delayed_seconds_total", VOLUME, "volume", "{{volume}}")], "s", 8),
    ],
    [
        Panel("Errors", "Operations per second. Storage: real storage failed. Aborted: clients received no response in time. Illegal: a client sent a command that "
              "is not permitted, for example a write to a read-only volume. Violations: a peer violated the protocol and was disconnected.", [
                  per_second("wss_volume_errors_total", VOLUME, "volume", "{{volume}} storage"),
                  per_second("wss_block_aborted_total", TARGET, "instance", "{{instance}} aborted"),
                  per_second("wss_block_illegal_requests_total", TARGET, "instance", "{{instance}} illegal"),
                  per_second("wss_block_violations_total", TARGET, "instance", "{{instance}} violations")], "ops"),
        Panel("Refused logins by reason", "Limit: see Sessions and Channels above. Not authenticated: wrong secret; the log has address and name "
              "(audit: authentication failed). TLS: wrong certificate or key.", [
                  (f"sum by (limit) (rate(wss_logins_refused_total{{{TARGET}}}{RATE}))", "limit {{limit}}"),
                  (f"sum(rate(wss_block_refused_logins_total{{{TARGET}}}{RATE}))", "not authenticated"),
                  (f"sum(rate(wss_tls_handshakes_failed_total{{{TARGET}}}{RATE}))", "TLS")], "ops"),
    ],
    [
        Panel("Sessions and channels", "Of initiators. A drop to zero means that the network failed or the target was restarted.", [
            (f"wss_sessions{{{TARGET}}}", "{{instance}} sessions"), (f"wss_channels{{{TARGET}}}", "{{instance}} channels")]),
        Panel("Commands that wait for a buffer", "Per second. If this never stops, the outstanding commands of clients need more buffers than the target has.", [
            per_second("wss_block_waited_for_buffer_total", TARGET, "instance", "{{instance}}")], "ops"),
    ],
])  # fmt: skip

CACHE_DASHBOARD = Dashboard("wss-cache", "WSS / Cache", "Hits, dirty data and cache engines", [
    ("instance", "Target", "label_values(wss_cache_engines, instance)"),
    ("volume", "Volume", 'label_values(wss_cache_reads_total{instance=~"$instance"}, volume)'),
    ("engine", "Engine", "label_values(wss_engine_moves_total, instance)"),
], [
    [
        stat("Engines", "Cache engines that have joined. If some are missing, see wssctl cache status.", f"sum(wss_cache_engines{{{TARGET}}})",
             steps=((None, "red"), (1, "orange"), (2, "green"))),
        stat("Waiting for engines", "Restarted targets that wait for engines with dirty lines. Their commands wait too. Start the engines that "
             "wssctl cache status lists.", f"sum(wss_cache_recovering{{{TARGET}}})"),
        stat("Lost", "Acknowledged bytes that only engines that are away hold. Start these engines. See Documentation/cache.md, When every copy of a dirty line is away.",
             f"sum(wss_cache_lost_bytes{{{VOLUME}}})", "bytes"),
        stat("Dirty lines with one copy", "The loss of one more engine loses them. Destaging them fails, and no engine has room for a second copy.",
             f"sum(wss_cache_single_lines{{{VOLUME}}})"),
        stat("Oldest dirty data", "How long it has waited to be destaged. The target destages it after 5 s. A much higher value means that storage is too slow or fails.",
             f"max(wss_cache_oldest_dirty_seconds{{{VOLUME}}})", "s", ((None, "green"), (20, "orange"), (60, "red"))),
        stat("Storage failing", "Volumes to whose storage destaging fails. wssctl cache status has the error.",
             f"sum(wss_cache_storage_failing{{{VOLUME}}})"),
    ],
    [
        Panel("Hit ratio", "Share of reads for which every byte was in an engine. If it stays low, the working set is larger than the cache, or data is read only once.", [
            (f"sum by (volume) (rate(wss_cache_read_hits_total{{{VOLUME}}}{RATE})) / sum by (volume) (rate(wss_cache_reads_total{{{VOLUME}}}{RATE}))",
             "{{volume}}")], "percentunit", most=1),
        Panel("Bytes by path", "Directly between engines and clients, through the target, and to and from real storage (including destaging and fills). "
              "The first two are the load that the cache takes off the target. Compare them with the last two for real storage.", [
                  (f"sum(rate(wss_cache_engine_read_bytes_total{{{VOLUME}}}{RATE}))", "engines to clients"),
                  (f"sum(rate(wss_cache_engine_write_bytes_total{{{VOLUME}}}{RATE}))", "clients to engines"),
                  (f"sum(rate(wss_cache_through_target_bytes_total{{{VOLUME}}}{RATE}))", "through the target"),
                  (f"sum(rate(wss_cache_storage_read_bytes_total{{{VOLUME}}}{RATE}))", "from storage"),
                  (f"sum(rate(wss_cache_storage_write_bytes_total{{{VOLUME}}}{RATE}))", "to storage")], "Bps"),
    ],
    [
        Panel("Engines over time", "Engines that have joined. Each drop is a loss, a stop or wssctl cache remove.", [(f"wss_cache_engines{{{TARGET}}}", "{{instance}}")], width=8),
        Panel("Use of the cache", "In use: normally close to 100 %, because engines evict only lines that have not been used for a long time. Dirty: above 40 %, the target destages "
              "lines of any age; near 50 %, writes become as slow as storage.", [
                  (f"wss_cache_used_lines{{{TARGET}}} / wss_cache_lines{{{TARGET}}}", "{{instance}} in use"),
                  (f"sum by (instance) (wss_cache_dirty_lines{{{TARGET}}}) / on (instance) wss_cache_lines{{{TARGET}}}", "{{instance}} dirty")],
              "percentunit", 8, steps=((None, "green"), (0.45, "orange")), most=1),
        Panel("Dirty lines", "Lines newer than real storage. Those with one copy are lost if their engine is lost.", [
            (f"sum by (volume) (wss_cache_dirty_lines{{{VOLUME}}})", "{{volume}}"),
            (f"sum by (volume) (wss_cache_single_lines{{{VOLUME}}})", "{{volume}} one copy")], width=8),
    ],
    [
        Panel("Age of the oldest dirty data", "5 s is normal. If it grows, storage is too slow for the writes, or fails.", [
            (f"max by (volume) (wss_cache_oldest_dirty_seconds{{{VOLUME}}})", "{{volume}}")],
            "s", 8, steps=((None, "green"), (20, "orange"), (60, "red")), line=True),
        Panel("Destaging", "Dirty bytes written to storage per second.", [
            per_second("wss_cache_destaged_bytes_total", VOLUME, "volume", "{{volume}}")], "Bps", 8),
        Panel("Failed destaging", "Failed attempts per second. The data stays dirty, and the target retries.", [
            per_second("wss_cache_destage_errors_total", VOLUME, "volume", "{{volume}}")], "ops", 8, steps=RED_ABOVE_0),
    ],
    [
        Panel("Fills and read-ahead", "Bytes stored in engines after misses, and bytes read from storage before a read requested them. If read-ahead is high and hits are few, "
              "lower --cache-read-ahead.", [
                  (f"sum(rate(wss_cache_fill_bytes_total{{{VOLUME}}}{RATE}))", "fills"),
                  (f"sum(rate(wss_cache_read_ahead_bytes_total{{{VOLUME}}}{RATE}))", "read-ahead")], "Bps", 8),
        Panel("Lost bytes", "Acknowledged bytes that only engines that are away hold.", [
            (f"sum by (volume) (wss_cache_lost_bytes{{{VOLUME}}})", "{{volume}}")], "bytes", 8, steps=RED_ABOVE_0),
        Panel("Commands that wait for lost bytes", "They wait for --cache-grace (15 s) for engines to return, then fail.", [
            (f"sum by (volume) (wss_cache_waiting_commands{{{VOLUME}}})", "{{volume}}")], width=8, steps=RED_ABOVE_0),
    ],
    [
        Panel("Engines: client traffic", "RDMA traffic between each engine and clients. If engines differ widely, clients can reach only some of them.", [
            per_second("wss_engine_to_client_bytes_total", ENGINE, "instance", "{{instance}} to clients"),
            per_second("wss_engine_from_client_bytes_total", ENGINE, "instance", "{{instance}} from clients")], "Bps"),
        Panel("Engines: failures", "Per second. Failed moves: a client or storage was lost during the transfer. Refused clients: no valid token. Storage: the disks of a "
              "wss-target --role rs fail.", [
                  per_second("wss_engine_failed_moves_total", ENGINE, "instance", "{{instance}} failed moves"),
                  per_second("wss_engine_clients_refused_total", ENGINE, "instance", "{{instance}} refused clients"),
                  per_second("wss_engine_storage_errors_total", ENGINE, "instance", "{{instance}} storage")], "ops"),
    ],
])  # fmt: skip

KV_DASHBOARD = Dashboard("wss-kv", "WSS / Key-value store", "Requests, transactions and memory of partitions", [
    ("instance", "Target", "label_values(wss_kv_ready, instance)"),
    ("partition", "Partition", 'label_values(wss_kv_ready{instance=~"$instance"}, partition)'),
], [
    [
        stat("Partitions not ready", "They serve no clients. /readyz has the reason.", f"count(wss_kv_ready{{{PARTITION}}}) - sum(wss_kv_ready{{{PARTITION}}})"),
        stat("Keys", "Of all partitions shown.", f"sum(wss_kv_keys{{{PARTITION}}})", steps=((None, "green"),)),
        stat("Connections", "Of clients and partitions.", f"sum(wss_kv_connections{{{PARTITION}}})", steps=((None, "green"),)),
        stat("Client ids leased", "Of the fullest partition. At 100 %, no new client can connect to it.",
             f"max(wss_kv_client_ids_leased{{{PARTITION}}} / wss_kv_client_ids{{{PARTITION}}})", "percentunit",
             ((None, "green"), (0.9, "orange"), (0.99, "red"))),
        stat("Transactions waiting", "They wait for an unreachable partition: start it.", f"sum(wss_kv_terminations_waiting{{{PARTITION}}})"),
        stat("Log failures", "In the time range shown. The disk of kv_directory is full or fails.", f"sum(increase(wss_kv_log_failures_total{{{PARTITION}}}[$__range]))"),
    ],
    [
        Panel("Requests", "Per second, by type. A transaction on several partitions counts once on each.", [
            (f"sum(rate(wss_kv_{name}_total{{{PARTITION}}}{RATE}))", legend) for name, legend in (
                ("gets", "gets"), ("prepares", "prepares and puts"), ("commits", "commits"), ("conditional_puts", "conditional puts"), ("scans", "pages of scans"),
                ("locks", "locks"))], "reqps"),
        latency("Latency", "Time of requests in the server. One-sided reads are not included.", "wss_kv_request_seconds", PARTITION),
    ],
    [
        Panel("Keys read by path", "Without the server (one-sided), by message, and again by timestamp (RAMP's second round: a write was in progress).", [
            (f"sum(rate(wss_kv_one_sided_keys_total{{{PARTITION}}}{RATE}))", "one-sided"),
            (f"sum(rate(wss_kv_get_keys_total{{{PARTITION}}}{RATE}))", "by message"),
            (f"sum(rate(wss_kv_second_round_keys_total{{{PARTITION}}}{RATE}))", "second round")], "ops"),
        Panel("Why one-sided readers send messages", "Per second. no_address: the client has not read the key before. stale, torn: it was just written. large: its value does not "
              "fit in a slot.", [(f"sum by (reason) (rate(wss_kv_fallback_gets_total{{{PARTITION}}}{RATE}))", "{{reason}}")], "reqps"),
    ],
    [
        Panel("Transactions that did not commit at once", "Per second. Aborted by clients; decided by partitions because the client was silent; slower than the slow log's "
              "limit.", [
                  (f"sum(rate(wss_kv_aborts_total{{{PARTITION}}}{RATE}))", "aborted"),
                  (f"sum by (outcome) (rate(wss_kv_terminations_total{{{PARTITION}}}{RATE}))", "decided: {{outcome}}"),
                  (f"sum(rate(wss_kv_slow_requests_total{{{PARTITION}}}{RATE}))", "slow requests")], "ops"),
        Panel("Undecided transactions", "Prepared transactions, and those of silent clients that wait for an unreachable partition. If they grow, clients exit during transactions, or a "
              "partition is down.", [
                  (f"sum by (partition) (wss_kv_prepared{{{PARTITION}}})", "{{partition}} prepared"),
                  (f"sum by (partition) (wss_kv_terminations_waiting{{{PARTITION}}})", "{{partition}} waiting")]),
    ],
    [
        Panel("Use of kv_memory", "Keys, values and versions. When memory is full, a partition with a disk evicts values to it. Without a disk, it refuses writes.", [
            (f"wss_kv_arena_used_bytes{{{PARTITION}}} / wss_kv_arena_bytes{{{PARTITION}}}", "{{partition}}")],
            "percentunit", 8, steps=((None, "green"), (0.9, "orange")), line=True, most=1),
        Panel("Index memory", "The key index, which is not part of kv_memory. kv_index_memory limits it.", [
            (f"sum by (partition) (wss_kv_heap_used_bytes{{{PARTITION}}} + wss_kv_index_used_bytes{{{PARTITION}}})", "{{partition}}")], "bytes", 8),
        Panel("Values on disk", "Per second: values evicted to disk, and values fetched from it for reads. If fetches are many, the working set is larger than kv_memory.", [
            (f"sum(rate(wss_kv_evicted_values_total{{{PARTITION}}}{RATE}))", "evicted"),
            (f"sum(rate(wss_kv_fetched_values_total{{{PARTITION}}}{RATE}))", "fetched")], "ops", 8),
    ],
    [
        Panel("Refused and postponed", "Per second. memory: it is full. disk: too many reads wait for it. backlog: a client does not read its replies. locks: too many locks. "
              "other: the client received the reason.", [
                  (f"sum(rate(wss_kv_refused_{name}total{{{PARTITION}}}{RATE}))", legend) for name, legend in (
                      ("memory_", "memory"), ("cold_", "disk"), ("backlog_", "backlog"), ("locks_", "locks"), ("", "other"))], "reqps"),
        Panel("Delay of collection", "How long collection of the oldest superseded version is overdue. If it grows, old versions fill the memory.", [
            (f"max by (partition) (wss_kv_gc_lag_seconds{{{PARTITION}}})", "{{partition}}")], "s", steps=((None, "green"), (60, "orange")), line=True),
    ],
])  # fmt: skip

CLIENTS_DASHBOARD = Dashboard("wss-clients", "WSS / Clients", "The driver on clients: wssctl metrics, collected by node_exporter", [
    ("instance", "Client", "label_values(wss_driver_pending_maps, instance)"),
], [
    [
        stat("Clients", "Machines that run the driver.", f"count(wss_driver_pending_maps{{{CLIENT}}})", steps=((None, "green"),), width=6),
        stat("Sessions not live", "Requests to these targets wait, then fail. See wssctl list on the client. Is the target up?",
             f"count(wss_driver_session_live{{{CLIENT}}}) - sum(wss_driver_session_live{{{CLIENT}}})", width=6),
        stat("Disks not live", "Their session is not live, or their target does not have the volume. See wssctl list on the client.",
             f"count(wss_driver_disk_live{{{CLIENT}}}) - sum(wss_driver_disk_live{{{CLIENT}}})", width=6),
        stat("Pending disks", "Mapped with retry=on, and not mapped yet. wssctl list has the reason.",
             f"sum(wss_driver_pending_maps{{{CLIENT}}})", steps=((None, "green"), (1, "orange")), width=6),
    ],
    [
        Panel("Throughput", "Of the driver's disks, as node_exporter reports it.", [
            (f'rate(node_disk_read_bytes_total{{{CLIENT}, device=~"wss.*"}}{RATE})', "{{instance}} {{device}} read"),
            (f'rate(node_disk_written_bytes_total{{{CLIENT}, device=~"wss.*"}}{RATE})', "{{instance}} {{device}} written")], "Bps"),
        Panel("Mean latency", "As programs on the client see it, including the network and queueing in the block layer. Compare with the target's latency.", [
            (f'rate(node_disk_{kind}_time_seconds_total{{{CLIENT}, device=~"wss.*"}}{RATE}) / rate(node_disk_{count}_completed_total{{{CLIENT}, device=~"wss.*"}}{RATE})',
             f"{{{{instance}}}} {{{{device}}}} {kind}") for kind, count in (("read", "reads"), ("write", "writes"))], "s"),
    ],
    [
        Panel("Requests", "Sent to targets, per second, and those that cache engines completed.", [
            per_second("wss_driver_requests_total", CLIENT, "instance, target", "{{instance}} to {{target}}"),
            per_second("wss_driver_engine_completions_total", CLIENT, "instance, target", "{{instance}} by engines")], "reqps"),
        Panel("Failures", "Per second. Errors: programs received I/O errors. Timeouts: no response in time. Retries: sent again after a loss. Reconnects: the session was lost. "
              "Protocol errors: report them.", [
                  per_second(f"wss_driver_{name}_total", CLIENT, "instance, target", f"{{{{instance}}}} to {{{{target}}}} {legend}") for name, legend in (
                      ("errors", "errors"), ("timeouts", "timeouts"), ("retries", "retries"), ("reconnects", "reconnects"),
                      ("protocol_errors", "protocol errors"))], "ops", steps=RED_ABOVE_0),
    ],
])  # fmt: skip

DASHBOARDS = (TARGET_DASHBOARD, CACHE_DASHBOARD, KV_DASHBOARD, CLIENTS_DASHBOARD)


def variable(name: str, label: str, query: str) -> dict:
    return {"name": name, "label": label, "type": "query", "datasource": DATASOURCE, "query": {"query": query, "refId": name}, "definition": query,
            "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "current": {"text": ["All"], "value": ["$__all"]}}  # fmt: skip


def options_of(panel: Panel) -> dict:
    if panel.kind == "stat":
        return {"colorMode": "background", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "value"}
    return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}


def panel_json(panel: Panel, number: int, x: int, y: int) -> dict:
    defaults = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in panel.steps]}}
    if panel.kind == "stat" and panel.unit == "short":
        defaults["decimals"] = 0  # increase() extrapolates, which turns whole numbers into fractions
    if panel.most is not None:
        defaults["max"] = panel.most
    if panel.kind == "timeseries":
        defaults["custom"] = {"fillOpacity": 10, "showPoints": "never", "thresholdsStyle": {"mode": "line" if panel.line else "off"}}
    return {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.description,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "datasource": DATASOURCE, "fieldConfig": {"defaults": defaults, "overrides": []}, "options": options_of(panel),
        "targets": [{"refId": chr(ord("A") + index), "datasource": DATASOURCE, "expr": expression, "legendFormat": legend}
                    for index, (expression, legend) in enumerate(panel.queries)],
    }  # fmt: skip


def dashboard_json(dashboard: Dashboard) -> dict:
    panels, y = [], 0
    for row in dashboard.rows:
        x = 0
        for panel in row:
            panels.append(panel_json(panel, len(panels) + 1, x, y))
            x += panel.width
        assert x == COLUMNS, f"{dashboard.title}: a row of {x} columns, not {COLUMNS}: {row[0].title}"
        y += row[0].height
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}}
    return {
        "uid": dashboard.uid, "title": dashboard.title, "description": dashboard.description, "tags": ["wss"], "schemaVersion": 37, "version": 1,
        "editable": True, "graphTooltip": 1, "refresh": "30s", "time": {"from": "now-3h", "to": "now"}, "timezone": "",
        "links": [{"type": "dashboards", "title": "WSS", "tags": ["wss"], "asDropdown": True, "keepTime": True}],
        "templating": {"list": [source] + [variable(*one) for one in dashboard.variables]},
        "panels": panels,
    }  # fmt: skip


def text_of(value, indent: str = "") -> str:
    """Returns JSON with one entry per line where a list does not fit in one line, so that a diff shows the
    query that changed."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(flat) <= 200 or not isinstance(value, (dict, list)) or not value:
        return flat
    deeper = indent + "  "
    named = value.items() if isinstance(value, dict) else ((None, one) for one in value)
    entries = [deeper + (f"{json.dumps(name)}: " if name is not None else "") + text_of(one, deeper) for name, one in named]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return begin + "\n" + ",\n".join(entries) + "\n" + indent + end


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print(__doc__, file=sys.stderr)
        return 2
    stale = 0
    for dashboard in DASHBOARDS:
        path = FOLDER / f"{dashboard.uid}.json"
        text = text_of(dashboard_json(dashboard)) + "\n"
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.name} is out of date: run tools/monitoring/dashboards.py", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
