# SPDX-License-Identifier: Apache-2.0
"""Tests of the lab itself. System tests are reliable only if the machines do what the lab claims."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from tests.bench.busy import counted_loop, since, snapshots
from tests.lab import channel
from tests.lab.errors import BootError, CommandFailed, GuestDied, GuestTimeout, KernelComplaint, LabError
from tests.lab.lab import Lab
from tests.lab.vm import Shape, Vm

MakeLab = Callable[..., Lab]
PROMPTLY = 5.0  # maximum seconds until the end of a machine is detected, even on a busy host


def test_command_returns_its_status_and_both_streams(vm: Vm) -> None:
    result = vm.run("echo to-out; echo to-err >&2; exit 7", check=False)
    assert (result.status, result.stdout, result.stderr) == (7, "to-out\n", "to-err\n")


def test_failed_command_raises_an_error_with_its_output(vm: Vm) -> None:
    with pytest.raises(CommandFailed, match="no such luck"):
        vm.run("echo no such luck >&2; false")


def test_clock_of_a_machine_is_not_faster_than_that_of_the_host(vm: Vm) -> None:
    began = time.monotonic()
    vm.run("sleep 3")
    assert time.monotonic() - began > 2.9


def test_missing_program_is_reported_as_an_error(vm: Vm) -> None:
    result = vm.run(["/does/not/exist"], check=False)
    assert result.status == 127
    assert "No such file" in result.stderr


def test_standard_input_larger_than_a_pipe_arrives_complete(vm: Vm) -> None:
    data = os.urandom(1 << 20)
    assert vm.run(["wc", "-c"], stdin=data).stdout.strip() == str(len(data))


def test_large_output_arrives_complete(vm: Vm) -> None:
    assert len(vm.run("head -c 3000000 /dev/zero | tr '\\0' x").stdout) == 3_000_000


def test_guest_writes_do_not_reach_the_host(vm: Vm) -> None:
    vm.run("echo guest >/etc/wss-lab-was-here && test -e /etc/wss-lab-was-here")
    assert not os.path.exists("/etc/wss-lab-was-here")


def test_shared_directory_carries_files_both_ways(pair: Lab) -> None:
    first, second = pair.vms
    first.run("echo from-guest >/lab/note")
    assert (pair.share / "note").read_text() == "from-guest\n"
    (pair.share / "answer").write_text("from-host")
    assert second.read("/lab/answer") == "from-host"
    (pair.share / "answer").write_text("changed afterwards")
    assert second.read("/lab/answer") == "changed afterwards"


def test_commands_run_concurrently(vm: Vm) -> None:
    background = vm.start("echo started; cat; echo ended")
    background.wait_for("started")
    assert vm.run("echo meanwhile").stdout == "meanwhile\n"
    background.write(b"typed\n")
    background.wait_for("typed")
    background.write(b"")
    assert background.wait().stdout == "started\ntyped\nended\n"


def test_wait_for_text_that_never_appears_fails(vm: Vm) -> None:
    background = vm.start("echo something else")
    with pytest.raises(LabError, match="ended with status 0"):
        background.wait_for("the word", timeout=20)


def test_hanging_command_is_killed_at_its_limit_with_its_children(vm: Vm) -> None:
    with pytest.raises(GuestTimeout, match="hrtimer_nanosleep"):  # the error must show where the command was
                                                                  # waiting
        vm.run("sleep 4321 & sleep 4321", timeout=1)
    assert vm.run("pgrep -c -f 'sleep 432[1]'", check=False).stdout.strip() == "0"


def test_background_child_does_not_delay_its_parent_and_keeps_running(vm: Vm) -> None:
    vm.run("sleep 4322 & echo parent done", timeout=20)
    assert vm.run("pkill -c -f 'sleep 432[2]'").stdout.strip() == "1"


def test_rdma_moves_data_between_two_processes_of_one_machine(vm: Vm) -> None:
    assert bandwidth(server=vm, client=vm) > 0


def test_udev_creates_links_to_a_disk(vm: Vm) -> None:
    vm.start_udev()
    assert vm.disks[0].serial in vm.run("ls /dev/disk/by-id").stdout
    vm.run("pkill systemd-udevd")


def test_kernel_warning_fails_the_test_that_caused_it(vm: Vm) -> None:
    mark = vm.klog.mark()
    vm.run("echo '<4>WARNING: CPU: 0 PID: 1 at lab/provoked.c:1' >/dev/kmsg")
    with pytest.raises(KernelComplaint, match="lab/provoked.c"):
        vm.check_klog(mark)
    vm.klog.allow("lab/provoked.c", "this test provokes it")
    vm.check_klog(mark)


def test_ordinary_kernel_message_is_not_a_complaint(vm: Vm) -> None:
    mark = vm.klog.mark()
    vm.run("echo '<6>lab: debugging is on, nothing is wrong' >/dev/kmsg")
    vm.check_klog(mark)
    assert "nothing is wrong" in vm.klog.text(mark)


def test_rdma_moves_data_between_two_machines(pair: Lab) -> None:
    assert bandwidth(server=pair.vms[1], client=pair.vms[0]) > 0
    assert min(port["delivered"] for port in pair.segment.counters()) > 100


def test_cut_link_stops_traffic_until_it_is_restored(pair: Lab) -> None:
    first, second = pair.vms
    assert reaches(first, second)
    pair.cut_link(second)
    assert not reaches(first, second)
    pair.restore_link(second)
    assert reaches(first, second)


def test_lossy_segment_loses_frames_and_recovers(pair: Lab) -> None:
    first, second = pair.vms
    pair.lose_frames(1.0)
    assert not reaches(first, second)
    pair.lose_frames(0.002, seed=7)
    assert bandwidth(server=second, client=first) > 0  # RDMA retransmits lost packets
    pair.lose_frames(0)
    assert reaches(first, second)
    assert sum(port["lost"] for port in pair.segment.counters()) > 2


def test_disk_keeps_its_data_over_a_power_cut(make_lab: MakeLab) -> None:
    vm = make_lab(shape=Shape(nvme_sizes=(64 << 20,), rdma=False)).vms[0]
    vm.run(f"echo survivor | dd of={vm.disk_device(0)} bs=4096 conv=sync oflag=direct")
    vm.power_cut()
    with pytest.raises(GuestDied):
        vm.run("true")
    vm.power_on()
    vm.wait_ready()
    assert vm.run(f"head -c 8 {vm.disk_device(0)}").stdout == "survivor"


def test_machine_that_panics_is_reported_promptly_with_its_last_words(make_lab: MakeLab) -> None:
    vm = make_lab(shape=Shape(rdma=False)).vms[0]
    waiting = vm.start("sleep 4323")
    vm.start("echo c >/proc/sysrq-trigger")
    started = time.monotonic()
    with pytest.raises(GuestDied, match="Kernel panic"):
        waiting.wait(timeout=60)
    assert time.monotonic() - started < PROMPTLY
    with pytest.raises(KernelComplaint, match="Kernel panic"):
        vm.check_klog()
    vm.klog.allow("sysrq: Trigger a crash|Kernel panic|BUG|Oops", "this test crashes the machine")


def test_machine_that_does_not_boot_shows_its_console(make_lab: MakeLab) -> None:
    with pytest.raises(BootError, match="Kernel panic"):
        make_lab(shape=Shape(kernel_arguments=("rdinit=/nothing", "root=/dev/nothing")))


def test_paused_machine_responds_again_after_it_is_resumed(pair: Lab) -> None:
    first, second = pair.vms
    second.pause()
    try:
        assert not reaches(first, second)
    finally:
        second.resume()
    assert second.run("echo back").stdout == "back\n"


def test_lab_gives_up_on_a_machine_that_accepts_no_input(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "SEND_LIMIT_SECONDS", 2)
    vm = make_lab(shape=Shape(rdma=False)).vms[0]
    vm.pause()
    started = time.monotonic()
    with pytest.raises(GuestDied):
        vm.run("cat", stdin=bytes(8 << 20), timeout=60)
    assert time.monotonic() - started < 2 + PROMPTLY


def test_same_work_takes_the_same_guest_time_in_every_counted_run(make_lab: MakeLab) -> None:
    work = "import time; start = time.monotonic(); sum(i * i for i in range(200000)); print(time.monotonic() - start)"
    times = []
    for _ in range(2):
        vm = make_lab(shape=Shape(icount=True, rdma=False)).vms[0]
        times.append(float(vm.run(["python3", "-S", "-c", work], env={"PYTHONHASHSEED": "0"}).stdout))
        vm.power_off()
    assert times[0] == pytest.approx(times[1], rel=0.002)


def test_counted_machines_reach_each_other_and_distinguish_idle_time_from_work(make_lab) -> None:
    lab = make_lab(2, Shape(cpus=1, memory_mib=512, icount=True))
    one, other = lab.vms
    assert counted_loop(one) == pytest.approx(1, abs=0.05)
    assert reaches(one, other)
    before = snapshots(lab.vms)
    one.run(["sleep", "3"])
    for work in since(lab.vms, before):
        assert work.elapsed > 2e9 and work.busy < work.elapsed / 2


def bandwidth(server: Vm, client: Vm) -> float:
    """Returns the MB/s of RDMA writes that ib_write_bw measures."""
    listening = server.start("stdbuf -oL ib_write_bw -d rxe0 -R -n 200 -p 20000")
    listening.wait_for("Waiting for client")
    report = client.run(f"ib_write_bw -d rxe0 -R -n 200 -p 20000 {server.address}").stdout
    listening.wait()
    line = [line.split() for line in report.splitlines() if line.strip().startswith("65536")]
    return float(line[0][3])


def reaches(source: Vm, target: Vm) -> bool:
    return source.run(["busybox", "ping", "-c", "2", "-W", "2", target.address], check=False).ok
