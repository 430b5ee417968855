# SPDX-License-Identifier: Apache-2.0
"""The status page shows the events of real programs within seconds, keeps working through them, and runs no code that they send."""

import contextlib
import http.client
import json
import os
import signal
import time

import pytest

from tests.native.cache_cluster import ask, until
from tests.native.kv import Store
from tests.native.ports import free_port
from tests.native.programs import Target, pause
from tests.native.rawnbd import WRITE, RawNbd
from tests.native.test_cache_rs import Storage, wait_for_storage
from tests.native.test_service import held

from .programs import MARKUP, HostileProxy, Pages, address, verifying_load

THOROUGH = bool(os.environ.get("WSS_THOROUGH"))
SERVING = "document.querySelector('#headline').textContent === 'Serving'"


def figure(title, series):
    """Returns an expression for the text of a graph's current value, or "" while there is no such graph."""
    return (f"([...document.querySelectorAll('figure')].find((one) => one.querySelector('h3').textContent === '{title}')"
            f"?.querySelectorAll('dd')[{series}].textContent ?? '')")


def flows(title, series=0):
    """Returns an expression for whether a graph's current value is known and greater than zero."""
    return f"!/^(0|–|$)/.test({figure(title, series)})"


def test_page_shows_a_load_and_a_killed_engine(page, tmp_path):
    with Pages(tmp_path, engines=2, size="64M") as cluster, verifying_load(cluster.target, "disk", tmp_path / "load"):
        shown = page(address(cluster.http))
        shown.until(SERVING)
        for title in ("Throughput", "Operations"):
            for series in (0, 1):
                shown.until(flows(title, series), 30)
        for title in ("Read latency", "Write latency"):
            shown.until(f"/(µs|ms|s)$/.test({figure(title, 1)})", 30)
        cluster.wait_for_clients()
        shown.until(flows("Cache hits"), 30)
        shown.until("[...document.querySelectorAll('#engines .served')].every((one) => /% of all/.test(one.textContent))", 30)
        assert "write-through" in shown.text("#volumes") and "WSS, tcp" in shown.text("#sessions")
        shown.screenshot("engines-1440")
        peer = cluster.live()[1]["peer"]
        cluster.engines[1].kill()
        shown.reads("#problems", peer, 5)
        shown.reads("#engines", "left at", 5)
        shown.screenshot("engine-killed-1440")
        shown.until(flows("Throughput"), 15)
        shown.click("#engines button")
        shown.until(SERVING)
        assert peer not in shown.text("body")


def test_page_shows_lost_data_before_other_problems(page, tmp_path, nbd):
    with Pages(tmp_path, size="64M", more=["--cache-grace", "60"]) as cluster:
        cluster.policy("write-back", unsafe=True)
        until(lambda: json.loads((tmp_path / "state.json.cache").read_text())["dirty"], 20, "the record of the volume is stable")
        ask(cluster.control, "volume.create", name="other", backend="ram:1M")
        shown = page(address(cluster.http))
        shown.until(SERVING)
        with RawNbd(nbd(cluster.target, "disk").socket) as disk:
            for line in range(64):
                assert disk.command(WRITE, line << 16, 4096, b"x" * 4096)[0] == 0
            shown.until(flows("Dirty and lost"), 10)
            cluster.engines[0].kill()
            shown.reads("#problems li:first-child", "Volume disk:", 10)
            shown.reads("#problems li:first-child", "acknowledged writes have been in no present engine", 10)
        assert shown.value("document.querySelector('#health').dataset.severity") == "bad"
        assert shown.text("#volumes tbody tr:first-child th") == "disk"
        shown.until(flows("Dirty and lost", 1), 10)
        shown.screenshot("lost-1440")


def test_page_reports_a_program_that_does_not_answer_and_resumes_when_it_does(page, nbd, tmp_path):
    port = free_port()
    target = Target("tcp://127.0.0.1:0", {"disk": "ram:4M"}, tmp_path, "--http", str(port))
    with target:
        shown = page(address(port))
        shown.until(SERVING)
        pause(target.process)
        try:
            shown.reads("#headline", "No answer since", 8)
            shown.idle(4)
            assert len(shown.open_requests) == 2, "only the requests for the health and for the counters may be open"
            assert shown.value("document.querySelector('#data').classList.contains('stale')")
        finally:
            target.process.send_signal(signal.SIGCONT)
        shown.until(SERVING)
        # The counters of the restarted program begin at zero. No rate may be negative.
        shown.until(f"window.shown = [], setInterval(() => shown.push({figure('Operations', 1)}, {figure('Throughput', 1)}), 50)")
        with RawNbd(nbd(target, "disk").socket) as disk:
            for _ in range(1000):
                assert disk.command(WRITE, 0, 4096, b"x" * 4096)[0] == 0
        shown.until("shown.some((text) => /^[1-9]/.test(text))")
        target.kill()
        shown.reads("#headline", "No answer since", 8)
        shown.reads("#program", "the last answer came")
        shown.screenshot("no-answer-1440")
        target.start()
        shown.until(SERVING)
        shown.until(f"{figure('Operations', 1)} === '0/s'")
        shown.reads("#program", "running for")
        assert not any("-" in text for text in shown.value("shown"))


@pytest.mark.skipif(not THOROUGH, reason="takes 5 s until a thread counts as not responding")
def test_page_shows_which_thread_does_not_respond(page, tmp_path):
    port = free_port()
    with Target("tcp://127.0.0.1:0", {"disk": "ram:4M"}, tmp_path, "--http", str(port), "--reactors", "1") as target:
        shown = page(address(port))
        shown.until(SERVING)
        with held(target.process, "reactor-0"):
            shown.reads("#problems", "reactor-0 has not answered for", 15)
            assert shown.text("#headline") == "Not ready"
        shown.until(SERVING)


def test_page_shows_volumes_whose_storage_fails(page, nbd, tmp_path):
    port = free_port()
    control = tmp_path / "control"
    volumes = {"flaky": f"error:op=write,errno=EIO:aio:{tmp_path}/flaky.img,size=4M,create"}
    target = Target("tcp://127.0.0.1:0", volumes, tmp_path, "--http", str(port), "--control", str(control), "--state", str(tmp_path / "state"))
    with target:
        ask(control, "volume.create", name="gone", backend=f"aio:{tmp_path}/gone.img", size="4M", create=True)
        target.stop()
        (tmp_path / "gone.img").unlink()
        target.start()
        shown = page(address(port))
        shown.reads("#problems", "Volume gone: cannot open")
        assert shown.text("#volumes tbody tr:first-child th") == "gone"
        assert "closed: " in shown.text("#volumes tbody tr:first-child .state")
        with RawNbd(nbd(target, "flaky").socket) as disk:
            assert disk.command(WRITE, 0, 4096, b"x" * 4096)[0] != 0
        shown.reads("#problems", "Volume flaky: 1 command ended with an error since")
        shown.reads("#volumes", "live, 1 error")
        shown.screenshot("storage-fails-1440")


def test_page_renders_no_markup_that_the_program_sends(page, tmp_path):
    port = free_port()
    # A file name may contain this markup, but no slash. The proxy below sends markup with a slash as well.
    path = tmp_path / "<img src=x onerror=document.title='markup'>.img"
    with Target("tcp://127.0.0.1:0", {"disk": f"aio:{path},size=1M,create"}, tmp_path, "--http", str(port)):
        shown = page(address(port))
        shown.reads("#volumes", "<img src=x onerror=document.title='markup'>")
        assert shown.value("document.querySelector('main img') === null")
    with Pages(tmp_path, size="16M", more=["--kv-listen", f"tcp://127.0.0.1:{free_port()}"]) as cluster, HostileProxy(cluster.http) as proxy:
        with verifying_load(cluster.target, "disk", tmp_path / "load", 4):
            until(lambda: ask(cluster.control, "session.list")["sessions"], 10, "a session exists")
            shown = page(f"http://127.0.0.1:{proxy.server_port}/")
            for where in ("#problems", "#program", "#engines", "#volumes", "#sessions", "#partitions"):
                shown.reads(where, MARKUP, 20)
            shown.idle(1)
        assert shown.value("document.querySelectorAll('img, body script').length") == 0
        assert shown.value("document.title").endswith(f"127.0.0.1:{proxy.server_port}")


def test_page_of_a_key_value_store_shows_partitions_and_no_volumes(page, tmp_path):
    port = free_port()
    with Store("tcp", 2, tmp_path, ["--http", f"127.0.0.1:{port}"], together=True) as store:
        shown = page(address(port))
        shown.until(SERVING)
        shown.until("document.querySelectorAll('#partitions tbody tr').length === 2")
        shown.value("window.most = 0; setInterval(() => { if (%s) window.most = 1; }, 50) > 0" % flows("Key-value requests", 2))
        store.bench({"recordcount": 200, "fieldcount": 1, "fieldlength": 100, "txnlen": 4, "operationcount": 3000, "readproportion": 0.5,
                     "updateproportion": 0.5})  # fmt: skip
        shown.until("window.most === 1")
        assert "serving" in shown.text("#partitions")
        for absent in ("#volumes", "#sessions", "#engines", "#storages"):
            assert shown.text(absent) == "", absent
        assert "Throughput" not in shown.text("#graphs")
        shown.screenshot("kv-1440")


def test_page_of_a_cache_engine_shows_its_targets(page, tmp_path):
    with Pages(tmp_path) as cluster:
        shown = page(address(cluster.engines[0].http))
        shown.until(SERVING)
        shown.reads("#storages", "connected")
        assert "wss-cache" in shown.text("#program")
        assert shown.text("#volumes") == ""
        cluster.target.kill()
        shown.reads("#problems", f"Storage engine {cluster.join}", 10)
        shown.screenshot("wss-cache-1440")
        cluster.target.start()
        shown.until(SERVING, 30)


def test_page_of_a_storage_process_names_its_program_and_role(page, tmp_path):
    port = free_port()
    with Pages(tmp_path, volumes={"disk": "rs:disk,size=64M"}) as cluster, Storage(cluster, more=("--http", str(port))):
        wait_for_storage(cluster)
        shown = page(address(port))
        shown.until(SERVING)
        shown.reads("#storages", "connected")
        assert "wss-target" in shown.text("#program") and "role rs" in shown.text("#program")


def test_page_polls_only_while_it_is_visible(page, tmp_path):
    port = free_port()
    with Target("tcp://127.0.0.1:0", {"disk": "ram:4M"}, tmp_path, "--http", str(port)):
        shown = page(address(port))
        shown.until(SERVING)
        other = page(None)
        other.show()
        shown.until("document.visibilityState === 'hidden'")
        shown.idle(1.5)  # until open requests have ended
        shown.requests.clear()
        shown.idle(2.5)
        assert shown.requests == []
        shown.show()
        shown.until("document.visibilityState === 'visible'")
        shown.idle(1.5)
        assert len(shown.requests) > 3
        assert shown.value(SERVING), "the page must not report that the program did not answer"


@pytest.mark.skipif(not THOROUGH, reason="ten pages keep two processors busy for a while")
def test_ten_pages_leave_connections_for_others(chromium, page, tmp_path):
    port = free_port()
    with Target("tcp://127.0.0.1:0", {"disk": "ram:4M"}, tmp_path, "--http", str(port)):
        # The browser limits connections for each profile, so ten profiles stand for ten users.
        shown = [page(address(port), alone=True) for _ in range(10)]
        for one in shown:
            one.until(SERVING, 60)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            shown[0].idle(0.3)
            for path, most in (("/livez", 2), ("/api/v1/stats", 5)):
                began = time.monotonic()
                with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
                    connection.request("GET", path)
                    assert connection.getresponse().status == 200
                assert time.monotonic() - began < most
        for one in shown:
            assert one.value(SERVING) and one.failed_requests == []
