# SPDX-License-Identifier: Apache-2.0
"""The programs behind the tested pages: a target and engines, a load, and a proxy that adds markup to every string of the API."""

from __future__ import annotations

import contextlib
import http.server
import json
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from pathlib import Path

from tests.native.cache_cluster import Cluster
from tests.native.ports import free_port
from tests.native.programs import Nbd
from tests.native.test_loss import wait_for_io


class Pages(Cluster):
    """A target with a cache, and engines. Each has a page."""

    def __init__(self, directory: Path, more=(), **options):
        self.http = free_port()
        super().__init__("tcp", directory, more=["--http", str(self.http), *more], **options)
        for engine in self.engines:
            engine.http = free_port()
            engine.command += ["--http", str(engine.http)]


def address(port: int) -> str:
    return f"http://127.0.0.1:{port}/"


@contextlib.contextmanager
def verifying_load(target, volume: str, directory: Path, megabytes: int = 48):
    """Runs a fio that writes, reads and verifies a volume until the end of the `with` block. It must find no error."""
    directory.mkdir()
    server = Nbd(target.address, volume, directory / "nbd", {"reconnect_timeout": 60, "request_timeout": 60}).start()
    # With --thread, fio has a single process, so that a signal ends it.
    load = subprocess.Popen(["fio", "--name=load", "--thread", "--ioengine=nbd", f"--uri={server.uri}", "--rw=randrw", "--rwmixread=70",
                             "--bs=16k", f"--size={megabytes}m", "--iodepth=4", "--time_based", "--runtime=300", "--verify=crc32c", "--verify_state_save=0",
                             "--rate_iops=700,300"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wait_for_io(server, load)  # before its first I/O, a signal would end fio without a report
        yield
        assert load.poll() is None, f"the load ended\n{load.stdout.read()}"
        load.send_signal(signal.SIGINT)
        output, _ = load.communicate(timeout=60)
        assert "err= 0" in output and "verify:" not in output, output
    finally:
        if load.poll() is None:
            load.kill()
            load.communicate()
        server.stop()


MARKUP = "<img src=x onerror=\"document.title='markup'\"><script>document.title='script'</script>"


def with_markup(value):
    """Returns the value with markup before every string that is not a key."""
    if isinstance(value, dict):
        return {key: with_markup(one) for key, one in value.items()}
    if isinstance(value, list):
        return [with_markup(one) for one in value]
    return MARKUP + value if isinstance(value, str) else value


class HostileProxy(http.server.ThreadingHTTPServer):
    """Serves the page of a program and adds markup to every string that its API returns."""

    daemon_threads = True

    def __init__(self, port: int):
        super().__init__(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{port}"
        self.thread = threading.Thread(target=self.serve_forever)

    def __enter__(self) -> "HostileProxy":
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.thread.join()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            answer = urllib.request.urlopen(self.server.origin + self.path, timeout=30)
        except urllib.error.HTTPError as failure:
            answer = failure
        with answer:
            body, kind = answer.read(), answer.headers["Content-Type"]
            if kind == "application/json" and self.path != "/api/v1/methods":
                body = json.dumps(with_markup(json.loads(body))).encode()
            if self.path == "/readyz":
                body = MARKUP.encode()
            self.send_response(503 if self.path == "/readyz" else answer.status)
            for name in ("Content-Type", "Content-Security-Policy", "X-Content-Type-Options", "Cache-Control"):
                self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
