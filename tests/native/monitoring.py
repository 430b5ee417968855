# SPDX-License-Identifier: Apache-2.0
"""Runs Prometheus, and extracts the names of metrics from metrics.md and the dashboards."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import re
import subprocess
import threading
import urllib.parse
import urllib.request
from pathlib import Path

from .cache_cluster import until
from .ports import free_port
from .programs import end

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "tools/monitoring"
ALERTS = MONITORING / "alerts.yaml"
START_SECONDS = 60
INTERVAL = "1s"
# Values for Grafana's variables. Each range must be longer than one scrape interval.
RANGES = {"$__rate_interval": "10s", "$__range": "10s"}


def dashboards() -> dict[str, dict]:
    return {path.name: json.loads(path.read_text()) for path in sorted((MONITORING / "dashboards").glob("*.json"))}


def queries(dashboard: dict) -> list[tuple[str, str]]:
    """Returns the panel title and the expression of each query."""
    return [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]


def names_in(expression: str) -> set[str]:
    """Returns the metrics in an expression, without the suffix _bucket of histograms."""
    bare = re.sub(r'"(?:\\.|[^"\\])*"', '""', expression)
    found = set(re.findall(r"\b(?:wss_\w+|node_\w+|up)\b", bare))
    return {re.sub(r"_bucket$", "", name) for name in found}


def is_documented(name: str) -> bool:
    page = (ROOT / "Documentation/metrics.md").read_text()
    patterns = re.findall(r"`((?:wss|node)_[\w*]+)(?:\{[^`]*\})?`", page)
    return any(re.fullmatch(pattern.replace("*", r"\w+"), name) for pattern in patterns)


def anchors(page: str) -> set[str]:
    """Returns the anchors that rendered Markdown has for the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", page, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class TextFiles:
    """Serves metrics like node_exporter: disk metrics, and the files of the textfile collector."""

    def __init__(self, text):
        """`text()` is called for each scrape."""
        handler = functools.partial(_Answers, text)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.port = self.server.server_address[1]

    def __enter__(self) -> "TextFiles":
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class _Answers(http.server.BaseHTTPRequestHandler):
    def __init__(self, text, *words):
        self.text = text
        super().__init__(*words)

    def do_GET(self):
        body = self.text().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Prometheus:
    """A running Prometheus. It scrapes `jobs` (name: ports) and evaluates the alert rules."""

    def __init__(self, folder: Path, jobs: dict[str, list[int]]):
        self.port = free_port()
        self.targets = sum(map(len, jobs.values()))
        self.log = folder / "prometheus.log"
        configuration = {
            "global": {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [{"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]}
                               for name, ports in jobs.items()],
        }  # fmt: skip
        file = folder / "prometheus.yml"
        file.write_text(json.dumps(configuration))  # JSON is YAML
        self.command = ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{self.port}",
                        "--log.level=warn"]  # fmt: skip

    def __enter__(self) -> "Prometheus":
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            until(self._is_ready, START_SECONDS, "Prometheus is ready")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        end(self.process)

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=10) as answer:
            return answer.status == 200
        return False

    def _get(self, path: str, **parameters) -> dict | list:
        words = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{words}", timeout=30) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as failure:
            raise AssertionError(f"{path} {parameters}: {failure.read().decode()}") from None

    def query(self, expression: str) -> list[dict]:
        """Replaces Grafana's variables, runs an instant query and returns its series."""
        for variable, value in RANGES.items():
            expression = expression.replace(variable, value)
        return self._get("query", query=re.sub(r"\$\w+", ".*", expression))["result"]

    def names(self) -> set[str]:
        return set(self._get("label/__name__/values"))

    def rules(self) -> list[dict]:
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]
