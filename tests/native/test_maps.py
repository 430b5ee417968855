# SPDX-License-Identifier: Apache-2.0
"""Tests `wssctl maps`, which wss-maps.service runs, with a simulated sysfs of the driver."""

import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest

from .programs import BUILD, run

WSSCTL = BUILD / "wssctl"
DONE, FAILED, USAGE, NOT_REACHABLE = 0, 1, 2, 3
TARGET = "10.0.0.1:5555"


class Driver:
    """The simulated sysfs of a driver. A volume that is written to `map` becomes a disk after `delay`
    seconds, or a pending map if it is in `absent`. A disk or pending map whose name is written to `unmap`
    disappears unless it is in `busy`."""

    def __init__(self, root, delay=0.05):
        self.root, self.delay = root, delay
        self.absent, self.busy, self.maps, self.unmaps = set(), set(), [], []
        self.waiting = []  # lines of the file `pending`, for tests with more of them than fit in a page
        for name in ("class/wss/session0", "block"):
            (root / name).mkdir(parents=True)
        (root / "class/wss/session0/target").write_text(TARGET + "\n")
        (root / "class/wss/last_error").write_text("")
        (root / "class/wss/pending").write_text("")
        self.ending = False
        self.numbers = itertools.count()
        # The pipes stay open, because data written between a close and the next open would be lost.
        self.pipes = {}
        for name in ("map", "unmap"):
            os.mkfifo(root / "class/wss" / name)
            self.pipes[name] = os.open(root / "class/wss" / name, os.O_RDWR)
        # A single read of a pipe may return two writes.
        self.threads = [threading.Thread(target=self.serve, args=words)
                        for words in (("map", "target=.+?(?=target=|$)", self.map), ("unmap", r"(?:wss|pending)\d+(?: force)?", self.unmap))]
        for thread in self.threads:
            thread.start()

    def serve(self, name, write, act):
        while not self.ending:
            for one in re.findall(write, os.read(self.pipes[name], 65536).decode()):
                act(one)

    def map(self, text):
        self.maps.append(text)
        words = dict(word.split("=", 1) for word in text.split())
        if words["volume"] in self.absent:
            pending = self.root / "class/wss/pending"
            pending.write_text(pending.read_text() + f"pending0 {TARGET} {words['volume']} tries=3 no route to host\n")
            return
        time.sleep(self.delay)
        self.add(words["volume"])

    def add(self, volume, **attributes):
        """Adds a disk. `attributes` are files of its folder wss."""
        number = next(self.numbers)
        fresh = self.root / f"fresh{number}"
        (fresh / "wss").mkdir(parents=True)
        for name, text in (("size", "2048"), ("ro", "0"), ("wss/volume", volume), ("wss/session", "session0"), ("wss/state", "live"),
                           *((f"wss/{name}", text) for name, text in attributes.items())):
            (fresh / name).write_text(text + "\n")
        fresh.rename(self.root / f"block/wss{number}")
        return f"wss{number}"

    def unmap(self, text):
        self.unmaps.append(text)
        name = text.split()[0]
        if name in self.busy and "force" not in text:
            return
        if name.startswith("pending"):
            if self.waiting:
                # wssctl reads the page faster than this thread updates it. So wssctl may write thousands of
                # names a second time.
                if any(line.split()[0] == name for line in self.waiting):
                    self.waiting = [line for line in self.waiting if line.split()[0] != name]
                    self.show_page()
            else:
                (self.root / "class/wss/pending").write_text("")
        else:
            shutil.rmtree(self.root / "block" / name)

    def show_page(self):
        """Shows at most one page of pending maps, like sysfs."""
        fresh = self.root / "fresh"
        fresh.write_text("".join(self.waiting)[:4095])
        fresh.rename(self.root / "class/wss/pending")

    def say_target(self, target):
        (self.root / "class/wss/session0/target").write_text(target + "\n")

    def wait_for_pending(self, count):
        deadline = time.monotonic() + 10
        while (self.root / "class/wss/pending").read_text().count("\n") != count:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def volumes(self):
        return sorted(p.read_text().strip() for p in self.root.glob("block/*/wss/volume"))

    def close(self):
        self.ending = True
        for pipe in self.pipes.values():
            os.write(pipe, b"end")
        for thread in self.threads:
            thread.join(10)
        for pipe in self.pipes.values():
            os.close(pipe)


@pytest.fixture
def driver(tmp_path):
    made = Driver(tmp_path / "sys")
    yield made
    made.close()


def maps(driver, tmp_path, text, *words, status=DONE, wait=5):
    file = tmp_path / "maps"
    file.write_text(text)
    done = run(WSSCTL, "--sysfs", driver.root if driver else tmp_path, "maps", "--file", file, "--wait", wait, *words, check=False)
    assert done.returncode == status, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


BOTH = f"# what this machine uses\n\nrdma://10.0.0.1 disk0 queues=2   # the first\n\t{TARGET}  disk1\n"


def test_up_maps_every_line_and_down_unmaps_in_reverse_order(driver, tmp_path):
    done = maps(driver, tmp_path, BOTH, "up")
    assert driver.volumes() == ["disk0", "disk1"]
    assert driver.maps == [f"target={TARGET} volume=disk0 queues=2 retry=on", f"target={TARGET} volume=disk1 retry=on"]
    assert "rdma://10.0.0.1 disk0: /dev/wss" in done.stdout and "1.00 MiB" in done.stdout
    first, second = (next(p.parent.parent.name for p in driver.root.glob("block/*/wss/volume") if p.read_text().strip() == volume)
                     for volume in ("disk0", "disk1"))
    assert "disk1: unmapped" in maps(driver, tmp_path, BOTH, "down").stdout
    assert driver.unmaps == [second, first] and driver.volumes() == []


@pytest.mark.parametrize("shown, written, volume", [
    (TARGET, "10.0.0.1", "lun:1"),
    (TARGET, "10.0.0.1", "lun:0x01"),
    (TARGET, "rdma://10.0.0.1", "naa.3ABCDEF000000001"),
    ("[2001:db8::1]:5555", "[2001:DB8:0::1]", "disk1"),
    ("[2001:DB8:0:0::1]", "rdma://[2001:db8::1]:5555", "disk1"),
])
def test_maps_finds_a_disk_by_any_spelling_of_its_line(driver, tmp_path, shown, written, volume):
    driver.say_target(shown)
    driver.add("disk0", lun="0000000000000000", wwid="naa.3abcdef000000000")
    driver.add("disk1", lun="4001000000000000", wwid="naa.3abcdef000000001")
    driver.waiting = [f"pending3 {shown} {volume} tries=1 no route to host\n"]
    text = f"{written} {volume}\n"
    assert "/dev/wss1, already mapped" in maps(driver, tmp_path, text, "up", wait=0).stdout
    driver.show_page()
    maps(driver, tmp_path, text, "down")
    assert driver.unmaps == ["wss1", "pending3"] and driver.volumes() == ["disk0"]
    assert not driver.maps


@pytest.mark.parametrize("state", ["failed", "dead"])
def test_up_replaces_a_disk_that_has_failed(driver, tmp_path, state):
    lost = driver.add("disk0", state=state)
    assert "disk0: /dev/wss1" in maps(driver, tmp_path, f"{TARGET} disk0\n", "up").stdout
    assert driver.unmaps == [lost]


def test_up_reports_a_failed_disk_in_use(driver, tmp_path):
    driver.add("disk0", state="failed")
    (driver.root / "class/wss/last_error").write_text("wss0 is open\n")
    (driver.root / "class/wss/unmap").rename(driver.root / "class/wss/unmap.fifo")
    (driver.root / "class/wss/unmap").symlink_to("/dev/full")
    done = maps(driver, tmp_path, f"{TARGET} disk0\n", "up", status=FAILED)
    assert "wss0 has failed and cannot be replaced (wss0 is open): unmount it, then run wssctl maps up again" in done.stderr
    assert not driver.maps


@pytest.mark.parametrize("state", ["recovering", "absent", "connecting", "removing"])
def test_up_waits_for_a_disk_whose_target_is_away(driver, tmp_path, state):
    name = driver.add("disk0", state=state)
    done = maps(driver, tmp_path, f"{TARGET} disk0\n", "up", status=FAILED, wait=0)
    assert f"/dev/wss0 is still {state} after 0 s" in done.stderr
    later = threading.Timer(0.5, (driver.root / "block" / name / "wss/state").write_text, ["live\n"])
    later.start()
    assert "disk0: /dev/wss0" in maps(driver, tmp_path, f"{TARGET} disk0\n", "up", wait=20).stdout
    later.join()
    assert not driver.maps and not driver.unmaps


def test_up_is_not_delayed_by_a_target_that_does_not_answer(tmp_path):
    """A request to one target does not wait for requests to another."""
    (tmp_path / "class/wss/session0").mkdir(parents=True)
    (tmp_path / "class/wss/session0/target").write_text(TARGET + "\n")
    (tmp_path / "class/wss/pending").write_text("")
    (tmp_path / "block").mkdir()
    # A writer to a full pipe without a reader blocks, like a writer to sysfs when the target does not answer.
    os.mkfifo(tmp_path / "class/wss/map")
    pipe = os.open(tmp_path / "class/wss/map", os.O_RDWR | os.O_NONBLOCK)
    try:
        while True:
            os.write(pipe, b"-" * 4096)
    except BlockingIOError:
        pass
    lines = "".join(f"10.0.0.{target} disk{volume}\n" for target in (7, 8, 9) for volume in (0, 1))
    (tmp_path / "maps").write_text(lines)
    command = [WSSCTL, "--sysfs", tmp_path, "maps", "--file", tmp_path / "maps", "--wait", "0", "up"]
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        wchan_deadline = time.monotonic() + 20
        while len(os.listdir(f"/proc/{process.pid}/task")) != 4:  # one thread for each target, and the main
                                                                  # thread
            assert process.poll() is None and time.monotonic() < wchan_deadline, "the requests must be concurrent"
            time.sleep(0.01)
        started = time.monotonic()
        text = process.communicate(timeout=60)[0]
        assert time.monotonic() - started < 25, "wssctl must wait only for --wait and the first attempts"
    os.close(pipe)
    assert process.returncode == FAILED and text.count("not mapped within 0 s") == 6, text


def test_up_reports_a_map_that_the_driver_has_given_up(driver, tmp_path):
    driver.absent = {"disk0"}

    def give_up():
        driver.wait_for_pending(1)
        (driver.root / "class/wss/pending").write_text("")

    later = threading.Thread(target=give_up)
    later.start()
    done = maps(driver, tmp_path, f"{TARGET} disk0\n", "up", status=FAILED, wait=2)
    later.join()
    # The message contains the driver's last reason if wssctl has read it.
    assert re.search(r"the driver has stopped trying( \(no route to host\))?; the kernel log has the reason", done.stderr), done.stderr
    assert "keeps trying" not in done.stderr


def test_down_checks_a_disk_once_more_before_it_reports_it(driver, tmp_path):
    name = driver.add("disk0")
    # As with the driver, an unmap takes effect before the write returns. Here it overwrites the file that
    # identifies the disk.
    (driver.root / "class/wss/unmap").rename(driver.root / "class/wss/unmap.fifo")
    (driver.root / "class/wss/unmap").symlink_to(driver.root / "block" / name / "wss/volume")
    assert "disk0: unmapped" in maps(driver, tmp_path, f"{TARGET} disk0\n", "down", wait=0).stdout


def test_down_ends_more_pending_maps_than_fit_in_a_page(driver, tmp_path):
    driver.waiting = [f"pending{n} {TARGET} disk{n} tries=7 {'no answer within 10 s; ' * 14}\n" for n in range(30)]
    driver.show_page()
    maps(driver, tmp_path, "".join(f"{TARGET} disk{n}\n" for n in range(30)), "down", wait=20)
    assert not driver.waiting and sorted(set(driver.unmaps)) == sorted(f"pending{n}" for n in range(30))


def test_down_fails_if_the_driver_cannot_show_all_pending_maps(driver, tmp_path):
    driver.waiting = [f"pending{n} 10.0.0.9:5555 disk{n} tries=7 {'no answer within 10 s; ' * 14}\n" for n in range(30)]
    driver.show_page()
    done = maps(driver, tmp_path, f"{TARGET} disk0\n", "down", status=FAILED, wait=0)
    assert "list of pending maps is full" in done.stderr


def test_unmap_all_ends_more_pending_maps_than_fit_in_a_page(driver):
    volumes = [driver.add("disk30"), driver.add("disk31")]
    driver.waiting = [f"pending{n} {TARGET} disk{n} tries=7 {'no answer within 10 s; ' * 14}\n" for n in range(30)]
    driver.show_page()
    run(WSSCTL, "--sysfs", driver.root, "unmap", "--all")
    deadline = time.monotonic() + 10
    while driver.waiting or driver.volumes():
        assert time.monotonic() < deadline, (driver.waiting, driver.volumes())
        time.sleep(0.01)
    assert set(driver.unmaps) == {*volumes, *(f"pending{n}" for n in range(30))}


def test_list_warns_that_more_maps_may_be_pending(driver):
    driver.waiting = [f"pending{n} {TARGET} disk{n} tries=7 {'no answer within 10 s; ' * 14}\n" for n in range(30)]
    driver.show_page()
    for words in ((), ("--json",)):
        done = run(WSSCTL, "--sysfs", driver.root, "list", *words)
        assert "more maps may be pending" in done.stderr and "disk29" not in done.stdout
    driver.waiting = driver.waiting[:3]
    driver.show_page()
    assert not run(WSSCTL, "--sysfs", driver.root, "list").stderr


def test_maps_refuses_an_endless_file(driver, tmp_path):
    done = run("bash", "-c", f"ulimit -v 4000000; exec {WSSCTL} maps --file /dev/zero check", check=False)
    assert done.returncode == USAGE and "/dev/zero: larger than 1048576 bytes" in done.stderr
    done = run(WSSCTL, "maps", "--file", tmp_path, "check", check=False)
    assert done.returncode == USAGE and f"{tmp_path}: cannot read the file" in done.stderr


def test_maps_does_not_wait_for_a_pipe_that_no_process_writes(tmp_path):
    os.mkfifo(tmp_path / "maps")
    done = run(WSSCTL, "maps", "--file", tmp_path / "maps", "check", check=False)
    assert done.returncode == USAGE and "a pipe to which no process has written" in done.stderr


def test_second_up_changes_nothing(driver, tmp_path):
    maps(driver, tmp_path, BOTH, "up")
    done = maps(driver, tmp_path, BOTH, "up")
    assert len(driver.maps) == 2
    assert done.stdout.count("already mapped") == 2
    maps(driver, tmp_path, BOTH, "down")
    assert maps(driver, tmp_path, BOTH, "down").stdout.count("not mapped") == 2


def test_up_waits_for_a_target_that_starts_later(driver, tmp_path):
    driver.absent = {"disk1"}
    later = threading.Timer(1, driver.add, ["disk1"])
    later.start()
    assert "disk1: /dev/wss" in maps(driver, tmp_path, BOTH, "up", wait=20).stdout
    later.join()


def test_up_reports_a_disk_that_is_late_and_leaves_its_map_pending(driver, tmp_path):
    driver.absent = {"disk0"}
    started = time.monotonic()
    done = maps(driver, tmp_path, BOTH, "up", status=FAILED, wait=1)
    assert time.monotonic() - started < 5
    assert f"{tmp_path}/maps:3: rdma://10.0.0.1 disk0: no disk after 1 s (no route to host); the driver keeps trying" in done.stderr
    assert "disk1: /dev/wss" in done.stdout, "an absent target must not delay another"
    assert "pending0" in (driver.root / "class/wss/pending").read_text()
    maps(driver, tmp_path, BOTH, "down")
    assert "pending0" in driver.unmaps, "down must also end pending maps"


def test_up_does_not_request_a_pending_map_again(driver, tmp_path):
    driver.absent = {"disk0", "disk1"}
    maps(driver, tmp_path, BOTH, "up", status=FAILED, wait=0)
    driver.wait_for_pending(2)
    maps(driver, tmp_path, BOTH, "up", status=FAILED, wait=0)
    assert len(driver.maps) == 2


def test_down_keeps_disks_in_use_and_names_them(driver, tmp_path):
    maps(driver, tmp_path, f"{TARGET} disk0\n", "up")
    name, = (p.name for p in (driver.root / "block").iterdir())
    driver.busy = {name}
    started = time.monotonic()
    done = maps(driver, tmp_path, f"{TARGET} disk0\n", "down", status=FAILED, wait=1)
    assert time.monotonic() - started < 5
    assert f"{name} still exists after 1 s" in done.stderr
    maps(driver, tmp_path, f"{TARGET} disk0\n", "down", "--force")
    assert driver.unmaps[-1] == f"{name} force"


def test_up_reports_the_reason_of_the_driver_for_each_line(driver, tmp_path):
    (driver.root / "class/wss/last_error").write_text("no volume of that name\n")
    real = driver.root / "class/wss/map"
    real.rename(driver.root / "class/wss/map.fifo")
    real.symlink_to("/dev/full")
    done = maps(driver, tmp_path, BOTH, "up", status=FAILED)
    assert ":3: rdma://10.0.0.1 disk0: no volume of that name" in done.stderr
    assert f":4: {TARGET} disk1: no volume of that name" in done.stderr
    real.unlink()
    (driver.root / "class/wss/map.fifo").rename(real)


def test_up_prints_its_result_as_json(driver, tmp_path):
    driver.absent = {"disk1"}
    told = json.loads(maps(driver, tmp_path, BOTH, "up", "--json", status=FAILED, wait=1).stdout)
    assert [one["volume"] for one in told] == ["disk0", "disk1"]
    assert "/dev/wss" in told[0]["result"] and "no route to host" in told[1]["error"]


@pytest.mark.parametrize("line, said", [
    ("10.0.0.1", "the volume is missing"),
    ("tcp://10.0.0.1 disk0", "the driver connects by RDMA"),
    ("10.0.0.1:99999 disk0", "the port is not a number"),
    ("10.0.0.1 disk0 fast", "'fast' is not of the form key=value"),
    ("10.0.0.1 disk0,max_imm=0", "blanks, commas or"),
    ("10.0.0.1 disk0\n10.0.0.1 disk0", ":3: 10.0.0.1 disk0 is already in the file, on line 2"),
    ("10.0.0.1 disk0\nrdma://10.0.0.1:5555 disk0", ":3: rdma://10.0.0.1:5555 disk0 is already in the file"),
    ("[2001:DB8:0::1] lun:1\n[2001:db8::1]:5555 lun:0x1", ":3: [2001:db8::1]:5555 lun:0x1 is already in the file"),
    ("10.0.0.1 naa.3ABC\n10.0.0.1 naa.3abc", ":3: 10.0.0.1 naa.3abc is already in the file"),
    ("10.0.0.1 disk0\0 queues=2", "control characters"),
    ("x" * 5000, "more than 4096"),
])
@pytest.mark.parametrize("verb", ["up", "check"])
def test_file_with_a_mistake_maps_nothing(driver, tmp_path, verb, line, said):
    done = maps(driver, tmp_path, f"{TARGET} disk9\n{line}\n", verb, status=USAGE)
    assert said in done.stderr and f"{tmp_path}/maps:" in done.stderr
    assert driver.maps == []


def test_up_with_an_empty_list_succeeds_even_without_the_module(tmp_path):
    assert "no volumes" in maps(None, tmp_path, "# TARGET VOLUME\n", "up").stdout
    assert "modprobe wss" in maps(None, tmp_path, f"{TARGET} disk0\n", "up", status=NOT_REACHABLE).stderr
    done = run(WSSCTL, "maps", "--file", tmp_path / "none", "up", check=False)
    assert done.returncode == USAGE and "cannot open the file" in done.stderr


def test_unsafe_secret_file_fails_only_its_own_line(driver, tmp_path):
    open_file = tmp_path / "secret"
    open_file.write_text("host1:0123456789abcdef0123456789abcdef\n")
    open_file.chmod(0o644)
    done = maps(driver, tmp_path, f"{TARGET} disk0 secret-file={open_file}\n{TARGET} disk1\n", "up", status=FAILED)
    assert str(open_file) in done.stderr and driver.volumes() == ["disk1"]


def test_wssctl_resolves_host_names_to_addresses_for_the_driver(driver, tmp_path):
    family, _, _, _, (first, *_) = socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM)[0]
    digits = f"[{first}]:5555" if family == socket.AF_INET6 else f"{first}:5555"
    for target, address, volume in (("localhost", digits, "disk0"), ("rdma://[0:0::1]:4711", "[::1]:4711", "disk1")):
        (driver.root / "class/wss/session0/target").write_text(address + "\n")
        text = f"{target} {volume}\n"
        assert f"{volume}: /dev/wss" in maps(driver, tmp_path, text, "up").stdout
        assert driver.maps[-1].startswith(f"target={address} volume={volume}")
        assert "already mapped" in maps(driver, tmp_path, text, "up").stdout
        assert f"{volume}: unmapped" in maps(driver, tmp_path, text, "down").stdout
    assert len(driver.maps) == 2


def test_unknown_host_fails_only_its_own_line(driver, tmp_path):
    text = f"no-such-host.invalid disk0\n{TARGET} disk1\n"
    for verb, volumes in (("up", ["disk1"]), ("down", [])):
        done = maps(driver, tmp_path, text, verb, status=FAILED, wait=1)
        assert ":1: no-such-host.invalid disk0: cannot find host 'no-such-host.invalid'" in done.stderr
        assert "check its spelling, /etc/hosts and the name server" in done.stderr
        assert driver.volumes() == volumes


def test_map_tries_every_address_of_a_host(driver, tmp_path):
    """The driver gets a request for each address and refuses both. The retry=on request goes to the first address."""
    hosts = tmp_path / "hosts"
    hosts.write_text("10.0.0.8 storage\n10.0.0.9 storage\n")
    asked = tmp_path / "asked"
    # A regular file would keep only the last write, so strace records each of them.
    (driver.root / "class/wss/map").rename(driver.root / "class/wss/map.fifo")
    (driver.root / "class/wss/map").symlink_to("/dev/full")
    (driver.root / "class/wss/last_error").write_text("nobody listens there\n")
    inside = f"mount --bind {hosts} /etc/hosts && exec strace -qq -e trace=write -s 200 -o {asked} {WSSCTL} --sysfs {driver.root} map storage disk0 retry=on"
    done = run("unshare", "-rm", "sh", "-c", inside, check=False)
    (driver.root / "class/wss/map").unlink()
    (driver.root / "class/wss/map.fifo").rename(driver.root / "class/wss/map")
    assert done.returncode == FAILED and "nobody listens there" in done.stderr, done.stderr
    lines = re.findall('"target=(.*?)"', asked.read_text())
    assert lines == ["10.0.0.8:5555 volume=disk0", "10.0.0.9:5555 volume=disk0", "10.0.0.8:5555 volume=disk0 retry=on"]


def test_up_exits_when_it_is_interrupted(driver, tmp_path):
    driver.absent = {"disk0"}
    (tmp_path / "maps").write_text(f"{TARGET} disk0\n")
    command = [WSSCTL, "--sysfs", driver.root, "maps", "--file", tmp_path / "maps", "--wait", "600", "up"]
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 20
        while not driver.maps:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.terminate()
        assert process.wait(5) == -15
