# SPDX-License-Identifier: Apache-2.0
"""Tests the programs' HTTP interface: the API against its description, metrics, health, and access control at
the port."""

import contextlib
import http.client
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import jsonschema
import pytest

from .cache_cluster import READING, Cluster, ControlSocket, ask, until
from .ports import free_port
from .programs import AS_USER, BUILD, Target, run, run_under_nbdkit
from .rawnbd import READ, WRITE, RawNbd
from .test_service import held

DESCRIPTION = json.loads((Path(__file__).resolve().parents[2] / "Documentation/api/openapi.json").read_text())
API = "/api/v1/"


def get(port, path, timeout=30):
    """Returns the status and the text."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=timeout) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as failure:
        return failure.code, failure.read().decode()


def check_schema(answer, schema):
    jsonschema.Draft202012Validator({**schema, "components": DESCRIPTION["components"]}).validate(answer)


def schema_of(path, verb, status):
    responses = DESCRIPTION["paths"][path][verb]["responses"]
    return responses.get(str(status), responses.get("default"))["content"]["application/json"]["schema"]


def path_of(method):
    return API + method.replace(".", "/")


class Checked:
    """A control socket. Every response is checked against the description of the API."""

    def __init__(self, path):
        self.connection = ControlSocket(path)

    def __call__(self, method, **params):
        """Calls a method, and returns the status and the response."""
        verb = "get" if method in READING else "post"
        self.connection.request(verb.upper(), path_of(method), None if verb == "get" else json.dumps(params))
        response = self.connection.getresponse()
        answer = json.load(response)
        check_schema(answer, schema_of(path_of(method), verb, response.status))
        if verb == "post" and response.status == 200:
            check_schema(params, DESCRIPTION["paths"][path_of(method)]["post"]["requestBody"]["content"]["application/json"]["schema"])
        return response.status, answer


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A target with a volume, a cache engine and a partition of a key-value store."""
    folder = tmp_path_factory.mktemp("http")
    port = free_port()
    made = Cluster("tcp", folder, more=["--http", str(port), "--kv-listen", f"tcp://127.0.0.1:{free_port()}"])
    made.http = port
    with made:
        run_under_nbdkit("nbdcopy $uri - | head -c 1M >/dev/null; nbdsh -u $uri -c 'h.pwrite(b\"x\" * 4096, 0)'",
                         f"target={made.target.address}", "volume=disk")
        yield made


def test_description_lists_exactly_the_methods_of_the_programs(cluster):
    described = {path for path in DESCRIPTION["paths"] if path.startswith(API)} - {API + "openapi.json"}
    methods = {path_of(method) for socket in (cluster.control, cluster.engines[0].control) for method in ask(socket, "methods")}
    assert methods == described
    for path in described:
        verb = "get" if path[len(API):].replace("/", ".") in READING else "post"
        assert list(DESCRIPTION["paths"][path]) == [verb]
    assert json.loads(get(cluster.http, API + "openapi.json")[1]) == DESCRIPTION


def test_every_response_conforms_to_the_description(cluster):
    target, engine = Checked(cluster.control), Checked(cluster.engines[0].control)
    for socket, call in ((cluster.control, target), (cluster.engines[0].control, engine)):
        for method in ask(socket, "methods"):
            if method in READING:
                assert call(method)[0] == 200, method
    assert target("volume.create", name="a", backend="ram:1M", iops="none")[0] == 200
    assert target("volume.resize", name="a", size="2M")[0] == 200
    assert target("volume.set", name="a", read_only=True, bandwidth=0)[0] == 200
    assert target("volume.access", name="a", access=["host1=rw"])[0] == 200
    assert target("volume.list")[1][1]["access"] == ["host1=rw"]
    assert target("volume.delete", name="a")[0] == 200
    assert target("cache.policy", volume="disk", policy="write-through")[0] == 200
    assert target("cache.drain", volume="disk")[0] == 200
    assert target("cache.forget")[0] == 200
    assert engine("engine.join")[0] == 200
    # Errors of the methods that change something.
    assert target("volume.reopen", name="nobody")[0] == 404
    assert target("session.end", initiator="nobody")[0] == 404
    assert target("auth.reload")[0] == 400
    for method in ("cache.give_up", "cache.remove", "volume.create", "volume.resize", "volume.set", "volume.delete", "cache.policy"):
        assert target(method)[0] == 400, method


def test_http_port_serves_what_the_control_socket_serves_but_changes_nothing(cluster):
    for path in DESCRIPTION["paths"]:
        verb, = DESCRIPTION["paths"][path]
        status, text = get(cluster.http, path)
        if path == API + "engine/status":
            assert status == 404, text
        elif verb == "get":
            assert status == 200, (path, text)
        else:
            assert status == (404 if path == API + "engine/join" else 405), (path, text)
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", cluster.http, timeout=30)) as connection:
                connection.request("POST", path, "{}")
                assert connection.getresponse().status == 403, path
    assert json.loads(get(cluster.http, API + "volume/list")[1]) == ask(cluster.control, "volume.list")


def test_promtool_accepts_the_metrics_of_a_target(cluster):
    status, text = get(cluster.http, "/metrics")
    assert status == 200
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    for histogram in ("wss_block_request_seconds", "wss_kv_request_seconds"):
        assert f"# TYPE {histogram} histogram" in text
    assert "# TYPE wss_tls_handshakes_total counter" in text
    reads = next(line for line in text.splitlines() if line.startswith('wss_block_request_seconds_count{operation="read"}'))
    assert int(reads.split()[1]) > 0


def test_target_names_an_http_port_that_is_in_use(tmp_path):
    port = free_port()
    with Target("tcp://127.0.0.1:0", {"a": "ram:1M"}, tmp_path, "--http", f"127.0.0.1:{port}"):
        done = run(BUILD / "wss-target", "--listen", "tcp://127.0.0.1:0", "--volume", "a=ram:1M", "--control", "", "--http", port, check=False)
    assert done.returncode == 1
    assert f"--http {port}: another program listens there" in done.stderr


def test_target_answers_health_requests_while_a_reactor_stalls_and_clients_poll_statistics(tmp_path):
    port = free_port()
    with Target("tcp://127.0.0.1:0", {"a": "ram:1M"}, tmp_path, "--http", str(port), "--reactors", "1") as target:
        assert get(port, "/livez") == (200, "ok\n")
        assert get(port, "/readyz") == (200, "ok\n")
        with held(target.process, "reactor-0"):
            pollers = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(40)]
            for poller in pollers:
                poller.request("GET", API + "stats")

            def stalled():
                begin = time.monotonic()
                answer = get(port, "/livez")
                assert time.monotonic() - begin < 5, "/livez must not wait for a reactor"
                return answer[0] == 503 and answer[1]

            assert "reactor-0 has not answered for" in until(stalled, 20, "the stall is reported")
            assert get(port, "/readyz")[0] == 503
            stats = json.load(pollers[0].getresponse())
            assert "did not answer" in stats["block"]["error"]
            check_schema(stats, schema_of(API + "stats", "get", 200))
            assert get(port, API + "session/list")[0] == 504
        for poller in pollers:
            poller.close()
        until(lambda: get(port, "/readyz")[0] == 200, 20, "the reactor runs again")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_target_at_its_thread_limit_serves_volumes_and_refuses_new_http_clients(tmp_path, nbd):
    port = free_port()
    target = Target("tcp://127.0.0.1:0", {"a": "ram:1M"}, tmp_path, "--http", str(port), "--auth-off")
    # The limit does not apply to root.
    target.command = [*AS_USER, *target.command]

    def limit_threads(most):
        run(*AS_USER, "prlimit", "--pid", target.process.pid, f"--nproc={most}:")

    with target:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as early, RawNbd(nbd(target, "a").socket) as disk:
            early.request("GET", "/livez")
            assert early.getresponse().read() == b"ok\n"
            limit_threads(1)
            for _ in range(3):
                status, text = get(port, "/livez")
                assert status == 503 and "cannot create a thread for another client" in text
            assert disk.command(WRITE, 0, 4096, b"x" * 4096)[0] == 0
            assert disk.command(READ, 0, 4096) == (0, b"x" * 4096)
            early.request("GET", API + "volume/list")
            assert json.load(early.getresponse())[0]["name"] == "a", "a client that has a thread must be served"
            limit_threads(1000)
        assert get(port, "/livez") == (200, "ok\n")


def test_target_is_not_ready_while_it_waits_for_engines_with_dirty_lines(tmp_path):
    port = free_port()
    with Cluster("tcp", tmp_path, more=["--http", str(port)]) as cluster:
        cluster.policy("write-back", unsafe=True)
        # Writes go to storage until stable storage has recorded that the volume may have dirty lines.
        until(lambda: json.loads((tmp_path / "state.json.cache").read_text())["dirty"], 20, "the record of the volume is stable")
        run_under_nbdkit("nbdsh -u $uri -c 'h.pwrite(b\"x\" * 65536, 0)'", f"target={cluster.target.address}", "volume=disk")
        for process in (cluster.target, cluster.engines[0]):
            process.kill()
        cluster.target.start()
        assert get(port, "/readyz") == (503, "reactor-0: the cache waits for engines with dirty lines\n")
        assert get(port, "/livez")[0] == 200
        ask(cluster.control, "cache.forget")
        until(lambda: get(port, "/readyz")[0] == 200, 20, "the target is ready")
        cluster.engines[0].start()


def test_curl_can_read_and_change_volumes_over_the_control_socket(cluster):
    def curl(path, *words):
        return json.loads(run("curl", "-s", "--unix-socket", cluster.control, f"http://wss{API}{path}", *words).stdout)

    assert curl("volume/create", "-d", '{"name": "c", "backend": "ram:1M"}')["name"] == "c"
    assert "c" in [volume["name"] for volume in curl("volume/list")]
    assert curl("volume/delete", "-d", '{"name": "c"}') == {"name": "c"}
