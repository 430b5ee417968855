# SPDX-License-Identifier: Apache-2.0
"""Checks the dashboards and alerts of tools/monitoring with promtool, against the documents, and with a
Prometheus that scrapes running programs."""

import json
import math
import re
import subprocess
import sys
import time

import pytest

from .alert_cases import CASES, INTERVAL_SECONDS, as_tests
from .cache_cluster import Cluster, ask, until
from .monitoring import ALERTS, MONITORING, ROOT, Prometheus, TextFiles, anchors, dashboards, is_documented, names_in, queries
from .ports import free_port
from .programs import BUILD, Nbd, Target, run
from .rawnbd import FLUSH, READ, WRITE, RawNbd
from .test_http import get
from .test_service import held
from .test_wssctl import driver_statistics, driver_tree

ANSWER_SECONDS = 90
BLOCK = 65536


def alert_texts():
    """Returns the text of each alert in the file, by its name."""
    parts = re.split(r"^ +- alert: (\w+)$", ALERTS.read_text(), flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2]))


# ---- Alerts


def test_promtool_accepts_the_rules():
    done = run("promtool", "check", "rules", ALERTS)
    assert f"SUCCESS: {len(alert_texts())} rules found" in done.stdout


def test_each_alert_fires_exactly_when_its_condition_holds(tmp_path):
    assert {case.alert for case in CASES} == set(alert_texts())
    file = tmp_path / "tests.yaml"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": f"{INTERVAL_SECONDS}s", "tests": as_tests(CASES)}))  # JSON is YAML
    done = run("promtool", "test", "rules", file, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", alert_texts())
def test_each_alert_has_a_severity_a_description_and_a_runbook(alert):
    text = alert_texts()[alert]
    assert re.search(r"severity: (critical|warning)$", text, re.M)
    summary, description = (re.search(rf'^ +{key}: "(.+)"$', text, re.M).group(1) for key in ("summary", "description"))
    assert len(description) > len(summary)
    page, _, anchor = re.search(r"^ +runbook: (\S+)$", text, re.M).group(1).partition("#")
    assert anchor in anchors((ROOT / page).read_text()), f"{page} has no section {anchor}"
    known = {label for case in CASES if case.alert == alert for label in case.expected}
    assert set(re.findall(r"\$labels\.(\w+)", text)) <= known
    assert f"`{alert}`" in (ROOT / "Documentation/metrics.md").read_text()


# ---- Dashboards


def test_dashboards_match_the_output_of_their_generator():
    done = subprocess.run([sys.executable, "-B", MONITORING / "dashboards.py", "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", dashboards())
def test_each_panel_is_valid_and_has_a_description(name):
    dashboard = dashboards()[name]
    assert f"{dashboard['uid']}.json" == name
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        assert panel["description"] and panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken and max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == panel["datasource"]["uid"] == "${datasource}"
            used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval", "__range"}
            assert used and used <= variables, target["expr"]
            assert len(re.findall(r"\binstance=~", target["expr"])) == len(re.findall(r"\b(?:wss|node)_\w+", target["expr"])), target["expr"]


# ---- Dashboards and alerts with real programs


class Traffic:
    """A client of each service. turn() sends a round of requests."""

    def __init__(self, cluster, disk, kv_address):
        self.cluster, self.disk, self.kv_address = cluster, disk, kv_address

    def turn(self):
        for offset in (0, BLOCK):
            assert self.disk.command(WRITE, offset, BLOCK, b"x" * BLOCK)[0] == 0
            assert self.disk.command(READ, offset, BLOCK)[0] == 0
        assert self.disk.command(FLUSH, 0, 0)[0] == 0
        run(BUILD / "kvctl", "--target", self.kv_address, "put", "key", "value")
        run(BUILD / "kvctl", "--target", self.kv_address, "get", "key")


def node_exporter(sysfs):
    """Returns a function that produces the metrics of the node_exporter on a client. The disk counters grow
    with each scrape."""
    scrapes = 0

    def text():
        nonlocal scrapes
        scrapes += 1
        disks = "".join(f'# TYPE node_disk_{name} counter\nnode_disk_{name}{{device="wss0"}} {scrapes}\n' for name in (
            "read_bytes_total", "written_bytes_total", "reads_completed_total", "writes_completed_total", "read_time_seconds_total", "write_time_seconds_total"))
        age = f'# TYPE node_textfile_mtime_seconds gauge\nnode_textfile_mtime_seconds{{file="/x/wss.prom"}} {time.time()}\n'
        return disks + age + run(BUILD / "wssctl", "--sysfs", sysfs, "metrics").stdout

    return text


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A Prometheus that evaluates the rules and scrapes a target with a cache and a partition, two engines,
    and a client. There is traffic for all of them."""
    folder = tmp_path_factory.mktemp("monitoring")
    target_port, kv_address = free_port(), f"tcp://127.0.0.1:{free_port()}"
    cluster = Cluster("tcp", folder, engines=2, more=["--http", str(target_port), "--kv-listen", kv_address])
    engine_ports = [free_port() for _ in cluster.engines]
    for engine, port in zip(cluster.engines, engine_ports):
        engine.command += ["--http", str(port)]
    counters, gauges = driver_statistics()
    sysfs = driver_tree(folder, {name: 7 for name in counters | gauges})
    with cluster, TextFiles(node_exporter(sysfs)) as client:
        cluster.policy("write-back")
        # The panels of limits show only volumes that have limits. This limit is high enough to delay nothing.
        ask(cluster.control, "volume.set", name="disk", iops=1_000_000, bandwidth=1 << 40)
        nbd = Nbd(cluster.target.address, "disk", folder / "nbd", {}).start()
        jobs = {"wss-target": [target_port], "wss-cache": engine_ports, "node": [client.port]}
        try:
            with RawNbd(nbd.socket) as disk, Prometheus(folder, jobs) as prometheus:
                yield prometheus, Traffic(cluster, disk, kv_address)
        finally:
            nbd.stop()


def unanswered(prometheus, expressions):
    """Returns those expressions for which no series has a finite value."""
    return {expression for expression in expressions if not any(math.isfinite(float(series["value"][1])) for series in prometheus.query(expression))}


def test_every_query_of_every_panel_returns_data_of_running_programs(watched):
    prometheus, traffic = watched
    expressions = {expression for dashboard in dashboards().values() for _, expression in queries(dashboard)}
    deadline = time.monotonic() + ANSWER_SECONDS
    while expressions:
        traffic.turn()
        expressions = unanswered(prometheus, expressions)
        assert time.monotonic() < deadline, "without data:\n" + "\n".join(sorted(expressions))


def test_every_dashboard_variable_has_values(watched):
    prometheus, _ = watched
    for dashboard in dashboards().values():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
                until(lambda: any(label in series["metric"] for series in prometheus.query(metric)), ANSWER_SECONDS, variable["definition"])


def test_no_alert_fires_while_all_is_well(watched):
    prometheus, traffic = watched
    # increase() needs more than one sample.
    until(lambda: len(prometheus.query("sum_over_time(up[1m]) >= 3")) == prometheus.targets, ANSWER_SECONDS, "every program has been scraped three times")
    traffic.turn()
    for rule in prometheus.rules():
        # Checks the condition without its `for`. So the condition may hold for a moment, for example for
        # lines with one copy.
        until(lambda: not prometheus.query(rule["query"]), ANSWER_SECONDS, f"{rule['name']} is quiet")


def test_every_metric_of_dashboards_and_alerts_is_documented_and_served(watched):
    prometheus, _ = watched
    used = {name for dashboard in dashboards().values() for _, expression in queries(dashboard) for name in names_in(expression)}
    used |= {name for rule in prometheus.rules() for name in names_in(rule["query"])}
    assert not {name for name in used if name != "up" and not is_documented(name)}
    until(lambda: not {name for name in used if not {name, f"{name}_bucket"} & prometheus.names()}, ANSWER_SECONDS, "all of them have been scraped")


def test_metrics_of_a_target_omit_sessions_while_a_reactor_stalls(tmp_path):
    """Creates the state that WssThreadDoesNotAnswer detects."""
    port = free_port()
    with Target("tcp://127.0.0.1:0", {"a": "ram:1M"}, tmp_path, "--http", str(port), "--reactors", "1") as target:
        assert names_in(get(port, "/metrics")[1]) >= {"wss_sessions", "wss_tls_handshakes_total"}
        with held(target.process, "reactor-0"):
            status, text = get(port, "/metrics", timeout=60)
        assert status == 200 and "wss_tls_handshakes_total" in names_in(text) and "wss_sessions" not in names_in(text)


# ---- Packages


def test_make_install_puts_monitoring_files_where_the_package_expects_them(tmp_path):
    listed = run("make", "-n", "-o", "programs", "install", "PREFIX=/usr", f"DESTDIR={tmp_path}", f"BUILD={BUILD}", cwd=ROOT, timeout=120).stdout
    lines = [line for line in listed.splitlines() if "tools/monitoring" in line]
    run("sh", "-ec", "\n".join(lines), cwd=ROOT)
    installed = tmp_path / "usr/share/wss/monitoring"
    assert {path.name for path in installed.iterdir()} == {"alerts.yaml", "dashboards"}
    assert {path.name for path in (installed / "dashboards").iterdir()} == set(dashboards())
    assert "usr/share/wss/monitoring" in (ROOT / "tools/packaging/debian/wss-tools.install").read_text().splitlines()
