# SPDX-License-Identifier: Apache-2.0
"""Runs the kit's commands on a machine under test. machine.py starts it there, over ssh or as a local process.

It is the lab's agent, which reads frames from standard input and writes frames to standard output. When its input ends, or is
silent for too long, it ends everything that it has started, in reverse order, and removes its directory. So nothing remains after
an interruption, a crash of the kit or a lost connection. A command that must restore a state does so on SIGTERM (holders.py).
"""

import ctypes
import json
import os
import resource
import shutil
import signal
import time

from tests.lab.inside import agent, frames

SILENCE_MAX = 90.0  # seconds without a frame; the kit sends one every 10 s
TERM_LIMIT = 30.0  # seconds from SIGTERM to SIGKILL
KILL_LIMIT = 5.0
PR_SET_CHILD_SUBREAPER = 36


class MachineAgent(agent.Agent):
    def __init__(self, directory):
        os.mkdir(directory, 0o700)
        self.directory = directory
        self.heard = time.monotonic()
        for fd in (0, 1):
            os.set_blocking(fd, False)
        super().__init__(0, 1, open_kernel_log())

    def run(self):
        try:
            self.send(frames.HELLO, 0, json.dumps({"uptime": time.monotonic()}).encode())
            while time.monotonic() - self.heard < SILENCE_MAX:
                for fd, _ in self.poll.poll(1000):
                    self.ready(fd)
        except (OSError, ValueError):
            pass  # the connection is broken
        finally:
            self.end()

    def read_port(self):
        self.heard = time.monotonic()
        super().read_port()

    def wait_for_lab(self):
        if time.monotonic() - self.heard > SILENCE_MAX:
            raise BrokenPipeError("the kit accepts no data")
        time.sleep(0.01)

    def on_poweroff(self, _number, _payload):
        raise SystemExit(0)  # run() ends everything

    def end(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        for command in reversed(list(self.commands.values())):
            end_group(command.pid)
        kill_orphans()
        shutil.rmtree(self.directory, ignore_errors=True)


def open_kernel_log():
    """Returns a descriptor of the kernel log's end, or -1 without the right to read it."""
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(log, 0, os.SEEK_END)
        return log
    except OSError:
        return -1


def end_group(leader):
    """Ends the process group of a command: SIGTERM, and SIGKILL at the limit. The leader has not been reaped."""
    for number, limit in ((signal.SIGTERM, TERM_LIMIT), (signal.SIGKILL, KILL_LIMIT)):
        for one in (number, signal.SIGCONT):
            try:
                os.killpg(leader, one)
            except OSError:
                pass  # it has ended
        if reaped(leader, limit):
            break
    try:
        os.killpg(leader, signal.SIGKILL)  # what the leader has left behind
    except OSError:
        pass


def reaped(pid, limit):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                return True
        except ChildProcessError:
            return True
        time.sleep(0.02)
    return False


def kill_orphans():
    """Kills processes that left the group of their command. As a subreaper the agent is their parent."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as stat:
                parent = int(stat.read().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                os.kill(int(entry), signal.SIGKILL)
                reaped(int(entry), KILL_LIMIT)
        except OSError:
            continue  # it has ended in the meantime


def leave(*_):
    raise SystemExit(0)


def main(directory):
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (hard, hard))  # inherited by every command
    MachineAgent(directory).run()
