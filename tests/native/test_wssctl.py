# SPDX-License-Identifier: Apache-2.0
"""Tests wssctl with a running target and with a simulated sysfs of the driver: output, exit status and
messages."""

import contextlib
import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from .certificates import Authority
from .programs import BUILD, Target, run

ROOT = Path(__file__).resolve().parents[2]
WSSCTL = BUILD / "wssctl"
DONE, FAILED, USAGE, NOT_REACHABLE = 0, 1, 2, 3


@pytest.fixture
def socket_of(tmp_path):
    """Returns a function that runs a target with one volume and a state file, as a context. The value of the
    context is the control socket."""
    @contextlib.contextmanager
    def running():
        path = tmp_path / "control.sock"
        # The configuration file sets the control socket, so the option --control that Target passes is
        # removed below.
        config = tmp_path / "wss.toml"
        config.write_text(f'control = "{path}"\nstate = "{tmp_path}/state.json"\n')
        target = Target("tcp://127.0.0.1:0", {"first": "ram:1M"}, tmp_path, "--config", str(config))
        at = target.command.index("--control")
        del target.command[at:at + 2]
        with target:
            yield path
    return running


@pytest.fixture
def socket(socket_of):
    with socket_of() as path:
        yield path


def wssctl(*words, status=DONE):
    done = run(WSSCTL, *words, check=False)
    assert done.returncode == status, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def answer(*words):
    return json.loads(wssctl(*words, "--json").stdout)


def test_volume_can_be_created_resized_changed_and_deleted(socket, tmp_path):
    control = ("--control", socket)
    made = answer(*control, "volume", "create", "disk", f"aio:{tmp_path}/disk.img", "--size", "4M", "--create")
    assert made["size"] == 4 << 20 and made["lun"] == 1 and made["block_size"] in (512, 4096)
    assert answer(*control, "volume", "resize", "disk", "8M")["size"] == 8 << 20
    assert os.path.getsize(tmp_path / "disk.img") == 8 << 20
    assert answer(*control, "volume", "set", "disk", "--read-only", "on")["read_only"] is True
    assert [volume["name"] for volume in answer(*control, "volume", "list")] == ["first", "disk"]
    assert "8.00 MiB" in wssctl(*control, "volume", "list").stdout
    assert set(answer(*control, "stats")["target"]["volumes"]) == {"first", "disk"}
    assert answer(*control, "session", "list") == {"sessions": []}
    wssctl(*control, "volume", "delete", "disk")
    assert [volume["name"] for volume in answer(*control, "volume", "list")] == ["first"]
    assert os.path.exists(tmp_path / "disk.img"), "deleting a volume must not delete its data"
    assert answer(*control, "ping")["program"] == "wss-target"


def test_ping_distinguishes_a_restarted_target_from_the_former_one(socket_of):
    """The pid may be the same, as it is in a container."""
    started = []
    for _ in range(2):
        with socket_of() as path:
            started += [answer("--control", path, "ping")["started_ms"] for _ in range(2)]
    assert started[0] == started[1] < started[2] == started[3]
    assert abs(started[3] / 1000 - time.time()) < 600


@pytest.mark.parametrize("words, said", [
    (("volume", "create", "first", "ram:1M"), "volume first already exists"),
    (("volume", "create", "x", "floppy:1"), "unknown backend 'floppy:1'"),
    (("volume", "create", "x", "aio:/nonexistent/x"), "/nonexistent/x"),
    (("volume", "create", "a/b", "ram:1M"), "invalid volume name"),
    (("volume", "resize", "first", "1X"), "'1X' is not a size"),
    (("volume", "delete", "nobody"), "there is no volume nobody"),
])
def test_wssctl_reports_a_refusal_of_the_target_with_exit_status_1(socket, words, said):
    assert said in wssctl("--control", socket, *words, status=FAILED).stderr


@pytest.mark.parametrize("words, said", [
    (("volune", "list"), "did you mean 'volume'?"),
    (("volume", "lst"), "did you mean 'list'?"),
    (("volume", "list", "--jsno"), "did you mean '--json'?"),
    (("volume", "create", "x"), "BACKEND"),
    (("map", "10.0.0.1:5555"), "VOLUME"),
    (("map", "10.0.0.1:5555", "two words"), "blanks"),
    (("map", "10.0.0.1:5555", "one,max_imm=0"), "commas"),
    (("unmap", "wss0 force"), "blanks"),
    (("unmap", ""), "blanks"),
    ((), "subcommand"),
])
def test_wrong_usage_has_exit_status_2(words, said):
    assert said in wssctl(*words, status=USAGE).stderr


def test_missing_target_or_driver_has_exit_status_3(tmp_path):
    assert "no wss-target answers" in wssctl("--control", tmp_path / "none", "ping", status=NOT_REACHABLE).stderr
    for words in (("list",), ("map", "10.0.0.1:5555", "v"), ("unmap", "wss0"), ("stats", "--driver"), ("metrics",)):
        assert "modprobe wss" in wssctl("--sysfs", tmp_path, *words, status=NOT_REACHABLE).stderr


def driver_tree(folder, statistics={"dma_maps": 200, "regions_registered": 200}):
    """Creates the simulated sysfs of a driver with one session and one device."""
    root = folder / "sys"
    files = {"class/wss/map": "", "class/wss/unmap": "", "class/wss/last_error": "no volume of that name\n",
             "class/wss/session0/target": "10.0.0.1:5555\n", "class/wss/session0/state": "live\n",
             "block/wss0/size": "2048\n", "block/wss0/ro": "0\n", "block/wss0/wss/volume": "disk0\n",
             "block/wss0/wss/session": "session0\n", "block/wss0/wss/state": "live\n", "block/wss0/wss/wwid": "naa.3001\n"}
    files |= {f"class/wss/session0/stats/{name}": f"{value}\n" for name, value in statistics.items()}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def sysfs(tmp_path):
    return driver_tree(tmp_path)


def driver_statistics():
    """Returns the names of the counters and of the gauges in stats/ of a session."""
    counters = set(re.findall(r"^\tX\((\w+),", (ROOT / "kernel/stats.h").read_text(), re.M))
    every = set(re.findall(r"^What:\s+\S*/stats/(\w+)$", (ROOT / "Documentation/ABI/testing/sysfs-class-wss").read_text(), re.M))
    assert counters and counters < every
    return counters, every - counters


def test_map_and_unmap_write_the_format_of_the_driver(sysfs):
    wssctl("--sysfs", sysfs, "map", "rdma://10.0.0.1:5555", "disk1", "queues=2")
    assert (sysfs / "class/wss/map").read_text() == "target=10.0.0.1:5555 volume=disk1 queues=2"
    wssctl("--sysfs", sysfs, "unmap", "/dev/wss0", "--force")
    assert (sysfs / "class/wss/unmap").read_text() == "wss0 force"


def test_wssctl_lists_devices_and_driver_counters(sysfs):
    device, = answer("--sysfs", sysfs, "list")
    assert device["device"] == "/dev/wss0" and device["size"] == 1 << 20 and device["target"] == "10.0.0.1:5555"
    text = wssctl("--sysfs", sysfs, "stats", "--driver").stdout
    assert "regions per mapped request: 1.00" in text
    counters = answer("--sysfs", sysfs, "stats", "--driver")["driver"]["sessions"]["session0"]["counters"]
    assert counters == {"dma_maps": 200, "regions_registered": 200}


def test_promtool_accepts_the_metrics_of_the_driver(tmp_path):
    counters, gauges = driver_statistics()
    sysfs = driver_tree(tmp_path, {name: 7 for name in counters | gauges})
    (sysfs / "class/wss/session0/target").write_text('10.0.0.1"\\\n')
    (sysfs / "class/wss/pending").write_text("pending0 10.0.0.9:5555 disk9 tries=3 no route\n")
    text = wssctl("--sysfs", sysfs, "metrics").stdout
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    session = r'session="session0",target="10.0.0.1\"\\"'
    lines = text.splitlines()
    for name in counters:
        assert f"# TYPE wss_driver_{name}_total counter" in lines and f"wss_driver_{name}_total{{{session}}} 7" in lines
    for name in gauges:
        assert f"# TYPE wss_driver_{name} gauge" in lines and f"wss_driver_{name}{{{session}}} 7" in lines
    assert f"wss_driver_session_live{{{session}}} 1" in lines
    assert f'wss_driver_disk_size_bytes{{device="wss0",volume="disk0",{session}}} 1048576' in lines
    assert "wss_driver_pending_maps 1" in lines


@pytest.mark.parametrize("disk, session", [("absent", "live"), ("recovering", "recovering")])
def test_metrics_show_sessions_and_disks_that_do_not_work(sysfs, disk, session):
    (sysfs / "block/wss0/wss/state").write_text(f"{disk}\n")
    (sysfs / "class/wss/session0/state").write_text(f"{session}\n")
    text = wssctl("--sysfs", sysfs, "metrics").stdout
    assert re.search(r"^wss_driver_disk_live\{.*\} 0$", text, re.M)
    assert re.search(rf"^wss_driver_session_live\{{.*\}} {int(session == 'live')}$", text, re.M)


def test_driver_without_disks_has_metrics(tmp_path):
    (tmp_path / "class/wss").mkdir(parents=True)
    assert "wss_driver_pending_maps 0" in wssctl("--sysfs", tmp_path, "metrics").stdout.splitlines()


def test_metrics_omit_a_session_that_ends_while_it_is_read(sysfs):
    (sysfs / "class/wss/session1").mkdir()
    assert "session1" not in wssctl("--sysfs", sysfs, "metrics").stdout


def test_error_for_metrics_as_json_names_the_command_that_prints_json(sysfs):
    assert "wssctl --json stats --driver" in wssctl("--sysfs", sysfs, "--json", "metrics", status=USAGE).stderr


def test_map_shows_the_reason_for_a_refusal_of_the_driver(sysfs):
    (sysfs / "class/wss/map").unlink()
    (sysfs / "class/wss/map").symlink_to("/dev/full")  # every write fails
    said = wssctl("--sysfs", sysfs, "map", "10.0.0.1:5555", "nobody", status=FAILED).stderr
    assert "no volume of that name" in said


def test_discover_lists_the_volumes_that_this_machine_may_use(tmp_path, listen):
    secrets, mine = tmp_path / "secrets", tmp_path / "mine"
    secrets.write_text("host1:0123456789abcdef0123\nhost2:fedcba9876543210fedc\n")
    mine.write_text("host1:0123456789abcdef0123\n")
    for file in (secrets, mine):
        file.chmod(0o600)
    volumes = {"a": "ram:8M", "b": "ram:1M,block=4096,ro", "hidden": "ram:1M"}
    with Target(listen, volumes, tmp_path, "--secrets", str(secrets), "--access", "hidden:host2=rw") as target:
        found = answer("discover", target.address, "--secret-file", mine)
        assert [(volume["lun"], volume["name"], volume["size"], volume["block_size"], volume["read_only"]) for volume in found] == [
            (0, "a", 8 << 20, 512, False), (1, "b", 1 << 20, 4096, True)]
        assert found[0]["wwid"].startswith("naa.3") and len(found[0]["wwid"]) == len("naa.") + 16
        table = wssctl("discover", target.address, "--secret-file", mine).stdout
        assert "8.00 MiB" in table and "hidden" not in table
        assert "secret" in wssctl("discover", target.address, status=FAILED).stderr
    assert target.address in wssctl("--timeout", "2", "discover", target.address, status=NOT_REACHABLE).stderr
    wssctl("discover", "floppy://x", status=USAGE)
    wssctl("discover", target.address, "--secret-file", tmp_path / "none", status=FAILED)


def test_discover_logs_in_to_tls_targets_with_certificates_or_secrets(tmp_path):
    authority = Authority(tmp_path / "certificates")
    certificate, key = authority.issue("target")
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.write_text("host1:0123456789abcdef0123\n")
    other.write_text("host1:fedcba9876543210fedc\n")
    for file in (mine, other):
        file.chmod(0o600)
    with Target("tls://127.0.0.1:0", {"a": "ram:8M"}, tmp_path, "--tls-cert", str(certificate), "--tls-key", str(key),
                "--tls-client-ca", str(authority.file)) as target:
        found = answer("discover", target.address, "--tls-ca", authority.file, "--tls-cert", certificate, "--tls-key", key)
        assert [volume["name"] for volume in found] == ["a"]
        assert "give a secret" in wssctl("discover", target.address, status=FAILED).stderr
        assert "cannot be used" in wssctl("discover", target.address, "--tls-ca", mine, status=FAILED).stderr
        plain = target.address.replace("tls://", "tcp://")
        assert "connect with tls://" in wssctl("--timeout", "2", "discover", plain, status=NOT_REACHABLE).stderr
    with Target("tls://127.0.0.1:0", {"b": "ram:8M"}, tmp_path, "--secrets", str(mine)) as target:
        assert [volume["name"] for volume in answer("discover", target.address, "--secret-file", mine)] == ["b"]
        assert "wrong secret" in wssctl("discover", target.address, "--secret-file", other, status=FAILED).stderr
