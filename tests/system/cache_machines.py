# SPDX-License-Identifier: Apache-2.0
"""A cache on three or more machines: the first is the client (wss.ko), the second the storage engine with real storage on its NVMe
disk, and the others are cache engines. Alternatively, real storage can be on the last one."""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager

from tests.lab.guest import Guest, Process, wait_until
from tests.lab.lab import Lab
from tests.system.block_setup import RUN, Driver, Target, fio_command, fio_end, loaded, run_fio

MIB = 1 << 20
LINE = 65536
# On a busy host, an emulated machine may not respond within the keep-alive time.
PATIENT = "queues=1 caps=0x4b keepalive_tmo=off fast_io_fail_tmo=off reconnect_delay=1"
LIMIT = 120  # time limit of a wait on such a host, in seconds


class Engine:
    """wss-cache in a machine. It can be killed and restarted."""

    def __init__(self, guest: Guest, storage: str, number: int = 0, memory: str = "40M") -> None:
        self.guest = guest
        self.control = f"{RUN}/engine-{number}.sock"
        self.command = (f"mkdir -p {RUN} && exec wss-cache --join rdma://{storage}:5556 "
                        f"--listen rdma://$LAB_ADDRESS:{5560 + number} --memory {memory} --control {self.control}")
        self.process: Process | None = None

    def start(self) -> Engine:
        self.process = self.guest.start(self.command)
        self.process.wait_for("ready on", LIMIT)
        return self

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def counters(self) -> dict[str, int]:
        ask = (f"import json, pathlib; from tests.native.cache_cluster import ask; "
               f"print(json.dumps(ask(pathlib.Path('{self.control}'), 'engine.status')))")
        return json.loads(self.guest.run(["python3", "-B", "-c", ask]).stdout)["counters"]


class Storage(Engine):
    """wss-target --role rs on the machine's disk."""

    def __init__(self, guest: Guest, storage_engine: str) -> None:
        self.guest = guest
        self.control = f"{RUN}/rs.sock"
        self.command = (f"mkdir -p {RUN} && exec wss-target --role rs --join rdma://{storage_engine}:5556 --listen rdma://$LAB_ADDRESS:5570 "
                        f"--volume disk=aio:{guest.disk_device(0)} --control {self.control}")
        self.process = None


class Machines:
    def __init__(self, lab: Lab, target: Target, engines: list[Engine], driver: Driver) -> None:
        self.lab, self.target, self.engines, self.driver = lab, target, engines, driver
        self.client = lab.vms[0]

    def status(self) -> dict:
        return self.target.ask("cache status")

    def live(self) -> list[dict]:
        return [engine for engine in self.status()["engines"] if engine["state"] == "live"]

    def counters(self) -> dict[str, int]:
        return self.status()["volumes"][0]["counters"]

    def dirty(self) -> int:
        return self.status()["volumes"][0]["dirty_lines"]

    def wait_for_engines(self, engines: int, state: str = "live") -> None:
        """Waits until all engines have joined and the driver is connected to each."""
        reached = lambda: [one for one in self.status()["engines"] if one["state"] == state and one["clients"] > 0]  # noqa: E731
        wait_until(lambda: len(reached()) == engines, f"the driver is connected to {engines} engines", LIMIT)

    def wait_until_reached(self) -> None:
        """Waits until real storage has connected to every engine."""
        wait_until(lambda: all(one["reached_by_storage"] for one in self.status()["engines"] if one["state"] == "live"),
                   "real storage has connected to the engines", LIMIT)

    def policy(self, words: str) -> None:
        self.target.wssctl(f"cache policy v {words}")

    def fio(self, device: str, words: str) -> None:
        end = run_fio(self.client, device, words, 600)
        assert end.error == 0 and end.status == 0, end

    def start_fio(self, device: str, words: str) -> Process:
        return self.client.start(fio_command(device, words))

    def written(self, device: str) -> int:
        """Returns the number of writes that the disk has completed."""
        return int(self.client.run(f"cat /sys/block/{device.split('/')[-1]}/stat").stdout.split()[4])

    def seconds_of_read(self, device: str) -> float:
        """Returns how long one read takes by the client's clock."""
        return self.client.run(f"dd if={device} of=/dev/null bs=64k count=1 iflag=direct", LIMIT).seconds


@contextmanager
def machines(lab: Lab, volume: str = ""):
    """Starts a cache and loads the driver. Nothing is mapped."""
    server = lab.vms[1]
    volume = volume or f"aio:{server.disk_device(0)}"
    with ExitStack() as stack:
        # The state and the disk survive a power cut of the machine.
        target = stack.enter_context(Target(server, {"v": volume}, state="/lab/cache-state.json",
                                            more="--cache-listen rdma://$LAB_ADDRESS:5556 --auth-off --drain-seconds 60"))
        engines = [Engine(vm, server.address, number) for number, vm in enumerate(lab.vms[2:])]
        for engine in engines:
            engine.start()
            stack.callback(engine.kill)
        driver = stack.enter_context(loaded(lab.vms[0]))
        made = Machines(lab, target, engines, driver)
        wait_until(lambda: len(made.live()) == len(engines), "all engines are live", LIMIT)
        yield made


def until_verified(load: Process) -> None:
    """Waits until a background fio job has ended. The job must have verified all its data."""
    wait_until(lambda: not load.running, "the load has ended", 600)
    end = fio_end(load.stdout, load.wait(10).status)
    assert end.status == 0 and end.error == 0, end
