# SPDX-License-Identifier: Apache-2.0
"""A real Ceph cluster on this host. Its one monitor and three OSDs, with their data in memory, are children of the test.

Authentication is on, and each object is on two OSDs. The cluster needs neither systemd nor a manager daemon.
Every process that the main thread starts ends with the test, even when the test is killed.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import subprocess
import threading
import uuid
from pathlib import Path

from .cache_cluster import until
from .ports import free_port
from .programs import pause, run

OSDS = 3
GROUPS = 8  # placement groups of a pool
DOWN_AFTER = 4  # seconds without a heartbeat until an OSD counts as down

CONFIGURATION = """[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{port}/0]
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
rbd cache = false
keyring = {folder}/keyring
osd pool default size = 2
osd pool default min size = 1
osd crush chooseleaf type = 0
mon allow pool delete = true
mon data avail warn = 1
mon data avail crit = 1
mon osd down out interval = 3600
mon osd min down reporters = 1
mon osd adjust heartbeat grace = false
osd heartbeat interval = 1
osd heartbeat grace = {down_after}
osd objectstore = memstore
osd fast shutdown = false
memstore device bytes = {device_bytes}
run dir = {folder}/run
admin socket = {folder}/run/$name.$pid.asok
log file = {folder}/run/$name.log
mon data = {folder}/mon
osd data = {folder}/osd$id
public addr = 127.0.0.1
"""


def _end_with_parent() -> None:
    """Kills the process when its parent ends. To the kernel the parent is the thread that started the process, so only the main thread may use this."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class CephCluster:
    def __init__(self, folder: Path, device_mib: int = 1024, settings: str = ""):
        """`settings` are further lines of the configuration."""
        self.folder = folder
        self.conf = folder / "ceph.conf"
        self.daemons: dict[str, subprocess.Popen] = {}
        self.images = 0
        self.device_bytes = device_mib << 20
        self.settings = settings

    # --- commands ---

    def ceph(self, *words, timeout=60, check=True):
        return run("ceph", "-c", self.conf, "--connect-timeout", "30", *words, timeout=timeout, check=check).stdout

    def rbd(self, *words, timeout=60, check=True):
        return run("rbd", "-c", self.conf, *words, timeout=timeout, check=check).stdout

    def create_image(self, size: str = "64M", *more, pool: str = "rbd") -> str:
        """Creates an image and returns POOL/IMAGE."""
        self.images += 1
        name = f"{pool}/disk{self.images}"
        self.rbd("create", "--size", size, *more, name)
        return name

    def acting(self, name: str) -> list[int]:
        """Returns the OSDs that have an object of the pool rbd, the primary first."""
        return json.loads(self.ceph("osd", "map", "rbd", name, "-f", "json"))["acting"]

    def create_image_apart(self, size: str, offset: int) -> tuple[str, int]:
        """Creates an image that has an object beyond the offset on an OSD without its header and its object map. Returns the image and that OSD."""
        for _ in range(40):
            image = self.create_image(size)
            about = json.loads(self.rbd("info", "--format", "json", image))
            near = {osd for kind in ("header", "object_map") for osd in self.acting(f"rbd_{kind}.{about['id']}")}
            for at in range(offset // about["object_size"], about["size"] // about["object_size"]):
                for osd in self.acting(f"rbd_data.{about['id']}.{at:016x}"):
                    if osd not in near:
                        return image, osd
        raise AssertionError("none of 40 images has such an OSD")

    def backend(self, image: str, **options) -> str:
        """Returns the specification of a volume on that image, with short limits for tests."""
        words = {"conf": self.conf, "osd_timeout": 20, "mon_timeout": 10, "open_timeout": 45, "close_timeout": 5, **options}
        return f"rbd:{image}?" + "&".join(f"{key}={value}" for key, value in words.items())

    def user(self, name: str, *capabilities) -> Path:
        """Creates a Ceph user and returns its keyring."""
        path = self.folder / f"{name}.keyring"
        path.write_text(self.ceph("auth", "get-or-create", f"client.{name}", *capabilities))
        return path

    # --- processes ---

    def start_osd(self, number: int) -> None:
        self._daemon(f"osd.{number}", "ceph-osd", "-i", str(number))

    def stop_osd(self, number: int) -> None:
        """Stops the OSD. It keeps its data."""
        self._end(f"osd.{number}", signal.SIGTERM)

    def kill_osd(self, number: int) -> None:
        self._end(f"osd.{number}", signal.SIGKILL)

    def wait_for_osds(self, count: int, seconds: float = 90) -> None:
        until(lambda: json.loads(self.ceph("osd", "stat", "-f", "json"))["num_up_osds"] == count, seconds, f"{count} OSDs are up")

    def wait_until_clean(self, seconds: float = 120) -> None:
        """Waits until every object of the pool rbd is on two OSDs again. A killed OSD has lost its data,
        which was in memory."""
        def clean() -> bool:
            states = [json.loads(self.ceph("tell", f"1.{group:x}", "query", check=False) or "{}").get("state") for group in range(GROUPS)]
            return states == ["active+clean"] * GROUPS

        until(clean, seconds, "every placement group is clean")

    def hang_all(self) -> None:
        for name, process in self.daemons.items():
            if name.startswith("osd."):
                pause(process)

    def hang(self, number: int) -> None:
        pause(self.daemons[f"osd.{number}"])

    def go_on(self) -> None:
        for process in self.daemons.values():
            process.send_signal(signal.SIGCONT)

    def _daemon(self, name: str, *command) -> None:
        with (self.folder / "run" / f"{name}.out").open("ab") as output:
            self.daemons[name] = subprocess.Popen([*command, "-f", "-c", str(self.conf)], stdout=output, stderr=output,
                                                  stdin=subprocess.DEVNULL,
                                                  preexec_fn=_end_with_parent if threading.current_thread() is threading.main_thread() else None)

    def _end(self, name: str, how: int) -> None:
        process = self.daemons.pop(name)
        process.send_signal(how)
        process.wait(30)

    def start(self) -> "CephCluster":
        for part in ("mon", "run", *(f"osd{number}" for number in range(OSDS))):
            (self.folder / part).mkdir(parents=True)
        port, fsid = free_port(), str(uuid.uuid4())
        self.conf.write_text(CONFIGURATION.format(fsid=fsid, port=port, folder=self.folder, down_after=DOWN_AFTER,
                                                  device_bytes=self.device_bytes) + self.settings)
        self._make_keyring()
        monmap = self.folder / "monmap"
        run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:127.0.0.1:{port}]", monmap)
        run("ceph-mon", "-c", self.conf, "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", self.folder / "keyring")
        self._daemon("mon.a", "ceph-mon", "-i", "a", "--public-addr", "127.0.0.1")
        for number in range(OSDS):
            identity = str(uuid.uuid4())
            self.ceph("osd", "new", identity, number)
            run("ceph-osd", "-c", self.conf, "-i", number, "--mkfs", "--osd-uuid", identity)
            self.start_osd(number)
        self.wait_for_osds(OSDS)
        self.create_pool("rbd")
        return self

    def create_pool(self, name: str) -> None:
        self.ceph("osd", "pool", "create", name, GROUPS)
        self.rbd("pool", "init", name)

    def _make_keyring(self) -> None:
        keyring = self.folder / "keyring"
        run("ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        users = {"client.admin": ("mon", "osd", "mgr")} | {f"osd.{number}": ("osd",) for number in range(OSDS)}
        for user, parts in users.items():
            capabilities = [word for part in parts for word in ("--cap", part, "allow *")]
            if user.startswith("osd"):
                capabilities += ["--cap", "mon", "allow profile osd"]
            run("ceph-authtool", keyring, "--gen-key", "-n", user, *capabilities)

    def stop(self) -> None:
        for process in self.daemons.values():
            process.kill()
        for process in self.daemons.values():
            process.wait(30)
        self.daemons.clear()

    def logs(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in (self.folder / "run").glob("*.log"))

    def __enter__(self) -> "CephCluster":
        try:
            return self.start()
        except BaseException:
            print(self.logs())
            self.stop()
            raise

    def __exit__(self, kind, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=kind is None)
