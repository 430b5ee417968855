# SPDX-License-Identifier: Apache-2.0
"""One virtual machine: the command line of QEMU, the life cycle and the console.

    power_on() -> wait_ready() -> commands (guest.py) -> power_off() or power_cut() -> power_on() again …

leash.py starts QEMU, which never outlives the lab. A power cut is SIGKILL: disks keep written data, and memory is lost.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.lab import paths, rdma
from tests.lab.bootimage import boot_image
from tests.lab.channel import AgentControls, Channel
from tests.lab.disks import Disk
from tests.lab.errors import BootError, CommandFailed, GuestDied, LabError
from tests.lab.guest import Guest, Process
from tests.lab.initramfs import initramfs_for
from tests.lab.inside import frames
from tests.lab.kernel import Kernel
from tests.lab.klog import last_words
from tests.lab.leash import leashed
from tests.lab.slowness import stretched
from tests.lab.tsc import tsc_khz

QEMU = "qemu-system-x86_64"
INSIDE = Path(__file__).with_name("inside")
BOOT_LIMIT = 240.0  # seconds; a boot takes about 6 s under emulation, and took 84 s on a host with a load of 12
POWER_OFF_LIMIT = 20.0
MTU = 4200  # gives an RDMA path MTU of 4096
FRESH = (Path("/tmp"), Path("/run"))  # each guest has its own


@dataclass(frozen=True)
class Shape:
    """The hardware of a machine. With `icount` (one CPU, emulated), busy time depends only on the executed
    instructions. A machine on its own then skips its idle time; one of several machines does not."""

    cpus: int = 2
    memory_mib: int = 1536
    nvme_sizes: tuple[int, ...] = ()
    icount: bool = False
    rdma: bool = True
    kernel_arguments: tuple[str, ...] = ()


class Vm(Guest):
    """A machine and the commands in it."""

    def __init__(self, index: int, shape: Shape, kernel: Kernel, accelerator: str, run: Path) -> None:
        super().__init__(f"vm{index}", f"10.87.0.{index + 1}", share="/lab")
        self.index = index
        self.shape = shape
        self.kernel = kernel
        self.accelerator = "tcg" if shape.icount else accelerator
        self.console_path = run / f"{self.name}.console"  # console of the latest boot
        self._run = run
        self._boots = 0
        self.boot_seconds = 0.0
        self.network_port: socket.socket | None = None  # to the switch of a segment; None: this is the only machine
        self.disks = [
            Disk(run / f"{self.name}-nvme{number}.img", size, f"wsslab{index}{number}")
            for number, size in enumerate(shape.nvme_sizes)
        ]
        self._mac = f"52:54:00:12:34:{0x56 + index:02x}"
        self._share = run / "share"
        self._qemu: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._started = 0.0

    # ---- life cycle

    def power_on(self) -> None:
        """Starts QEMU and returns at once, so that machines can boot at the same time. wait_ready() waits."""
        if self.running:
            raise LabError(f"{self.name} is already running")
        for disk in self.disks:
            disk.create()
        self.klog.new_boot()
        self._boots += 1
        self.console_path = self._run / f"{self.name}-boot{self._boots}.console"
        self._drain_cable()
        ours, theirs = socket.socketpair()
        nic = self.network_port
        inherited = [theirs.fileno()] + ([nic.fileno()] if nic else [])
        command = leashed(self.qemu_command(theirs.fileno()))
        self._started = time.monotonic()
        with open(self.console_path.with_suffix(".qemu"), "wb") as complaints:
            self._qemu = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=complaints, stderr=complaints, pass_fds=inherited,
                start_new_session=True,
            )  # fmt: skip
        theirs.close()
        self._channel = Channel(ours, self.klog.append)

    def wait_ready(self, timeout: float = BOOT_LIMIT) -> None:
        """Waits for the agent, then sets up the network and RDMA. BootError shows the end of the console."""
        channel = self._require_channel()
        if not channel.hello.wait(max(0.0, self._started + stretched(timeout) - time.monotonic())):
            self.power_cut()
            raise BootError(f"{self.name} did not boot within {timeout:.0f} s; last console output:\n{self._last_words()}")
        if channel.dead.is_set():
            self.power_cut()
            raise BootError(f"{self.name} died while booting; last console output:\n{self._last_words()}")
        device = rdma.KIND if self.shape.rdma else "none"
        try:
            words = [self.name, self.address, str(MTU), device, str(len(self.disks))]
            self.run(["sh", str(INSIDE / "setup.sh"), *words], timeout, cwd="/")
        except (CommandFailed, GuestDied) as error:
            self.power_cut()
            raise BootError(f"{self.name} booted, but its setup failed: {error}\n{self._last_words()}") from error
        self.boot_seconds = time.monotonic() - self._started

    def power_off(self, timeout: float = POWER_OFF_LIMIT) -> None:
        """Powers off in an orderly way: file systems are synced, then the kernel powers off. At the limit,
        cuts the power and raises an error."""
        if self._qemu is None or self._channel is None:
            return
        self.sync_klog()
        self._channel.send(frames.POWEROFF, 0)
        try:
            self._qemu.wait(stretched(timeout))
        except subprocess.TimeoutExpired:
            raise LabError(f"{self.name} did not power off within {timeout:.0f} s:\n{self._last_words()}") from None
        finally:
            self.power_cut()

    def power_cut(self) -> None:
        """Powers off at once. May be called in any state."""
        if self._qemu is not None:
            self._qemu.kill()
            self._qemu.wait(10)
            self._qemu = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        self.klog.end_of_boot(self.console_path)

    def pause(self) -> None:
        """Freezes the whole machine, like a hung node. It answers nothing until resume()."""
        self._require_qemu().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._require_qemu().send_signal(signal.SIGCONT)

    @property
    def deferred_output(self) -> bool:  # type: ignore[override]
        return self.shape.icount and self.network_port is None

    def disk_device(self, number: int) -> str:
        """Returns the /dev name of a disk. It is found by its serial number, because the kernel may enumerate
        disks in any order."""
        serial = self.disks[number].serial
        found = self.run(f"grep -lw {serial} /sys/class/nvme/*/serial").stdout.split("/")
        return f"/dev/{found[-2]}n1"

    @property
    def running(self) -> bool:
        return self._qemu is not None and self._qemu.poll() is None

    def wait_for_death(self, timeout: float) -> None:
        """Waits until the machine goes down without a command of the lab (panic, reboot)."""
        if not self._require_channel().dead.wait(timeout):
            raise LabError(f"{self.name} is still running after {timeout:.0f} s")
        self.power_cut()

    # ---- kernel log

    def sync_klog(self, timeout: float = 20.0) -> None:
        """Waits until `klog` contains everything that the kernel has logged so far. If the machine is dead,
        reads its console instead."""
        if self._channel is None or self._channel.dead.is_set():
            self.klog.end_of_boot(self.console_path)
        elif not self._channel.sync(stretched(timeout)) and not self._channel.dead.is_set():
            raise GuestDied(f"{self.name} does not answer ({timeout:.0f} s); last console output:\n{self._last_words()}")

    # ---- the methods that Guest requires

    def _spawn(self, process: Process, spec: dict) -> None:
        channel = self._channel
        if channel is None or channel.dead.is_set():
            raise GuestDied(f"`{process.name}`: {self.name} is not running; last console output:\n{self._last_words()}")
        process.last_words = self._last_words
        process.controls = AgentControls(channel, channel.spawn(process, spec))

    def _drain_cable(self) -> None:
        """Discards frames that arrived while the machine was off."""
        try:
            while self.network_port and self.network_port.recv(65536, socket.MSG_DONTWAIT):
                pass
        except BlockingIOError:
            pass

    def _last_words(self) -> str:
        said = [path.read_text(errors="replace") for path in self._logs() if path.exists()]
        return last_words("\n".join(text for text in said if text.strip()))

    def _logs(self) -> list[Path]:
        return [self.console_path.with_suffix(".qemu"), self.console_path]

    def _require_channel(self) -> Channel:
        if self._channel is None:
            raise GuestDied(f"{self.name} is switched off")
        return self._channel

    def _require_qemu(self) -> subprocess.Popen[bytes]:
        if self._qemu is None:
            raise GuestDied(f"{self.name} is switched off")
        return self._qemu

    # ---- QEMU's command line

    def qemu_command(self, agent_fd: int) -> list[str]:
        command = [QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-name", f"wss-{self.name}"]
        command += self._processor()
        if self.kernel.modules_root != Path("/"):
            # With the older machine type, a loop in ACPI byte code routes interrupts, which takes minutes with KASAN and
            # kmemleak.
            command += ["-machine", "q35"]
        command += ["-m", str(self.shape.memory_mib)]
        command += ["-kernel", str(boot_image(self.kernel)), "-initrd", str(initramfs_for(self.kernel))]
        command += ["-append", self._kernel_command_line()]
        command += ["-serial", f"file:{self.console_path}"]
        command += ["-virtfs", "local,path=/,mount_tag=host,security_model=none,multidevs=remap,readonly=on"]
        command += ["-virtfs", f"local,path={self._share},mount_tag=share,security_model=none,multidevs=remap"]
        command += ["-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,fd={agent_fd}"]
        command += ["-device", f"virtserialport,chardev=agent,name={frames.PORT_NAME}"]
        command += self._network()
        for disk in self.disks:
            command += disk.qemu_arguments()
        return command

    def _processor(self) -> list[str]:
        if self.shape.icount:
            # 2 ns of guest time per instruction; the clock starts at the same time in every run
            clock = ["-icount", f"shift=1,sleep={'on' if self.network_port else 'off'}", "-rtc", "base=2026-01-01,clock=vm"]
            return ["-accel", "tcg,thread=single,tb-size=256", *clock, "-smp", "1", "-cpu", "max"]
        if self.accelerator == "kvm":
            return ["-accel", "kvm", "-cpu", "host", "-smp", str(self.shape.cpus)]
        return ["-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max", "-smp", str(self.shape.cpus)]

    def _network(self) -> list[str]:
        if self.network_port:
            backend = f"dgram,id=net0,local.type=fd,local.str={self.network_port.fileno()}"
        else:
            backend = "hubport,id=net0,hubid=0"
        card = f"virtio-net-pci,netdev=net0,mac={self._mac},host_mtu={MTU},romfile="
        return ["-netdev", backend, "-device", card]

    def _kernel_command_line(self) -> str:
        # The timer check counts ticks in real time. On a busy host an emulated processor misses ticks, and the kernel panics.
        words = ["console=ttyS0", "loglevel=5", "panic=-1", "mitigations=off", "tsc=reliable", "no_timer_check", "net.ifnames=0"]
        words += ["nokaslr", "norandmaps"] if self.shape.icount else []
        if self.accelerator == "tcg" and not self.shape.icount and (khz := tsc_khz()):
            words.append(f"tsc_early_khz={khz}")
        words += [f"lab.agent={INSIDE / 'agent.py'}"]
        keep = [path for path in (paths.REPOSITORY, paths.build_directory()) if is_below_fresh(path)]
        words += ["lab.keep=" + ",".join(map(str, keep))] if keep else []
        if self.kernel.modules_root != Path("/"):
            words.append(f"lab.modules={self.kernel.modules}")
        return " ".join([*words, *self.shape.kernel_arguments])


def is_below_fresh(path: Path) -> bool:
    return any(fresh in path.parents for fresh in FRESH)


