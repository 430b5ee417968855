# SPDX-License-Identifier: Apache-2.0
"""The first process of a lab machine. Runs commands for the lab, which is at the other end of a virtio-serial port.

It has one thread with one poll loop. It also reaps orphans, streams the kernel log (/dev/kmsg) to the lab, and powers the machine
off. If it exits by mistake, the kernel panics, which the lab detects at once, so that no caller waits for it. Every command is
the leader of its own session, so that one signal reaches all its processes.
"""

import errno
import fcntl
import json
import os
import resource
import select
import signal
import struct
import termios
import time

try:
    import frames  # in a guest, where this file is the main program
except ImportError:
    from tests.lab.inside import frames  # in host_guest.py and tests/hardware/agent.py

CHUNK = 32 * 1024
OPEN_FILES = 65536


def find_port():
    """Returns the character device of the lab's virtio-serial port. Waits for the driver for at most 5 s."""
    base = "/sys/class/virtio-ports"
    for _ in range(500):
        for entry in os.listdir(base) if os.path.isdir(base) else ():
            with open(f"{base}/{entry}/name") as name:
                if name.read().strip() == frames.PORT_NAME:
                    return f"/dev/{entry}"
        time.sleep(0.01)
    raise SystemExit("lab-agent: no virtio-serial port named " + frames.PORT_NAME)


class Command:
    """A running command: its process group and the ends of its streams that the agent holds."""

    def __init__(self, number, spec):
        self.number = number
        self.deferred = bool(spec.get("deferred"))
        self.started = time.monotonic()
        self.pending_input = bytearray()
        self.input_ended = False
        if spec.get("tty"):
            self._spawn_on_terminal(spec)
        else:
            self._spawn_on_pipes(spec)

    def _spawn_on_terminal(self, spec):
        master, slave = os.openpty()
        self.stdin = master
        self.outputs = {master: frames.STDOUT}
        self._fork(spec, (slave, slave, slave), terminal=True)
        os.close(slave)

    def _spawn_on_pipes(self, spec):
        child_in, self.stdin = os.pipe()
        if self.deferred:
            out, err = os.memfd_create("stdout"), os.memfd_create("stderr")
            self.outputs = {}
            self.files = ((out, frames.STDOUT), (err, frames.STDERR))
            mine = ()
        else:
            read_out, out = os.pipe()
            read_err, err = os.pipe()
            self.outputs = {read_out: frames.STDOUT, read_err: frames.STDERR}
            mine = (out, err)
        self._fork(spec, (child_in, out, err))
        for fd in (child_in, *mine):
            os.close(fd)
        os.set_blocking(self.stdin, False)

    def _fork(self, spec, streams, terminal=False):
        self.pid = os.fork()
        if self.pid == 0:
            try:
                become(spec, streams, terminal)
            except BaseException as error:  # no exception in this child may return into the agent's loop
                os.write(2, f"lab: {spec['argv'][0]}: {error}\n".encode())
            os._exit(127)
        for fd in self.outputs:
            os.set_blocking(fd, False)


def become(spec, streams, terminal):
    """Runs in the child: creates a session, sets streams and working directory, and executes the program."""
    os.setsid()
    for fd, target in zip(streams, (0, 1, 2)):
        os.dup2(fd, target)
    if terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.chdir(spec["cwd"])
    os.execvpe(spec["argv"][0], spec["argv"], spec["env"])


class Agent:
    def __init__(self, incoming, outgoing, kmsg):
        """Frames arrive on one descriptor and leave on the other, which may be the same. `kmsg` is -1 if the kernel log is not
        streamed. The descriptors do not block."""
        self.incoming = incoming
        self.outgoing = outgoing
        self.kmsg = kmsg
        self.parser = frames.Parser()
        self.commands = {}  # number -> Command that has not been reaped
        self.outputs = {}  # file descriptor -> (Command, frame kind)
        self.writers = {}  # file descriptor of a standard input for which bytes are waiting -> Command
        self.poll = select.poll()
        self.wakeup, wakeup_write = os.pipe()
        for fd in (self.wakeup, wakeup_write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for fd in (self.incoming, self.kmsg, self.wakeup):
            if fd >= 0:
                self.poll.register(fd, select.POLLIN)
        self.handlers = {
            frames.SPAWN: self.on_spawn,
            frames.STDIN: self.on_stdin,
            frames.SIGNAL: self.on_signal,
            frames.PEEK: self.on_peek,
            frames.WINDOW: self.on_window,
            frames.SYNC: self.on_sync,
            frames.POWEROFF: self.on_poweroff,
        }

    def send(self, kind, number, payload=b""):
        view = memoryview(frames.pack(kind, number, payload))
        while view:
            try:
                view = view[os.write(self.outgoing, view) :]
            except BlockingIOError:
                self.wait_for_lab()

    def wait_for_lab(self):
        """Waits until the lab accepts more data. Powers the machine off if the lab is gone, because a write
        would then block for ever."""
        port = select.poll()
        port.register(self.outgoing, select.POLLOUT)
        for _, events in port.poll():
            if events & select.POLLHUP:
                self.on_poweroff(0, b"")

    def run(self):
        self.send(frames.HELLO, 0, json.dumps({"uptime": time.monotonic()}).encode())
        while True:
            for fd, _ in self.poll.poll():
                self.ready(fd)

    def ready(self, fd):
        if fd == self.incoming:
            self.read_port()
        elif fd == self.kmsg:
            self.read_kmsg()
        elif fd == self.wakeup:
            drain(self.wakeup)
            self.reap()
        elif fd in self.outputs:
            self.read_output(fd)
        if fd in self.writers:  # not "elif", because a terminal is in both
            self.write_input(self.writers[fd])

    def read_port(self):
        try:
            data = os.read(self.incoming, CHUNK)
        except BlockingIOError:
            return
        if not data:
            self.on_poweroff(0, b"")  # the lab is gone and will not use this machine again
        for kind, number, payload in self.parser.feed(data):
            self.handlers[kind](number, payload)

    def read_kmsg(self):
        """Forwards all available records, several in each frame."""
        records = []
        while self.kmsg >= 0:
            try:
                records.append(os.read(self.kmsg, 8192))
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EPIPE:  # EPIPE: records were overwritten; continue with the oldest
                    raise
            if sum(map(len, records)) > CHUNK:
                self.send(frames.KLOG, 0, b"\0".join(records))
                records = []
        if records:
            self.send(frames.KLOG, 0, b"\0".join(records))

    def read_output(self, fd):
        """Forwards one chunk of a command's output. Returns True while there may be more."""
        command, kind = self.outputs[fd]
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # EIO: the other end of a terminal is closed
            data = b""
        if data:
            self.send(kind, command.number, data)
            return True
        self.close_output(fd, command)
        return False

    def close_output(self, fd, command):
        del self.outputs[fd]
        self.poll.unregister(fd)
        self.writers.pop(fd, None)
        if command.stdin == fd:
            command.stdin = -1
        os.close(fd)

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for command in list(self.commands.values()):
                if command.pid == pid:
                    self.finish(command, os.waitstatus_to_exitcode(status))

    def finish(self, command, status):
        """Sends the last output of the command, then its status. The command's children may continue and keep
        the streams open."""
        seconds = time.monotonic() - command.started
        for fd, kind in command.files if command.deferred else ():
            self.send_file(fd, kind, command.number)
        for fd in [fd for fd, (owner, _) in self.outputs.items() if owner is command]:
            while self.read_output(fd):
                pass
        if command.stdin not in (-1, *self.outputs):
            self.close_input(command)
        del self.commands[command.number]
        self.read_kmsg()  # kernel messages that the command caused are reported before its end
        self.send(frames.EXIT, command.number, json.dumps({"status": status, "seconds": seconds}).encode())

    def send_file(self, fd, kind, number):
        offset = 0
        while data := os.pread(fd, CHUNK, offset):
            self.send(kind, number, data)
            offset += len(data)
        os.close(fd)

    def on_spawn(self, number, payload):
        try:
            command = Command(number, json.loads(payload))
        except OSError as error:
            answer = {"status": 127, "seconds": 0.0, "error": f"the agent could not start it: {error}"}
            self.send(frames.EXIT, number, json.dumps(answer).encode())
            return
        self.commands[number] = command
        for fd, kind in command.outputs.items():
            self.outputs[fd] = (command, kind)
            self.poll.register(fd, select.POLLIN)

    def on_stdin(self, number, payload):
        command = self.commands.get(number)
        if command is None or command.stdin < 0:
            return
        command.pending_input += payload
        command.input_ended = command.input_ended or not payload
        self.write_input(command)

    def write_input(self, command):
        """Writes the bytes that the command accepts now and polls for the rest."""
        fd = command.stdin
        try:
            while command.pending_input:
                del command.pending_input[: os.write(fd, command.pending_input[:CHUNK])]
        except BlockingIOError:
            self.writers[fd] = command
            self.watch(fd)
            return
        except OSError:  # EPIPE: the command has closed its input
            command.pending_input.clear()
            command.input_ended = True
        self.writers.pop(fd, None)
        self.watch(fd)
        if command.input_ended and fd not in self.outputs:
            self.close_input(command)

    def watch(self, fd):
        wanted = (select.POLLIN if fd in self.outputs else 0) | (select.POLLOUT if fd in self.writers else 0)
        if wanted:
            self.poll.register(fd, wanted)
        else:
            self.forget(fd)

    def forget(self, fd):
        try:
            self.poll.unregister(fd)
        except KeyError:  # it was never registered, because it was never full
            pass

    def close_input(self, command):
        self.writers.pop(command.stdin, None)
        self.forget(command.stdin)
        os.close(command.stdin)
        command.stdin = -1

    def on_signal(self, number, payload):
        command = self.commands.get(number)
        if command is not None:
            try:
                os.killpg(command.pid, struct.unpack("!I", payload)[0])
            except OSError:  # there is no group between fork and setsid, or the command has just ended
                os.kill(command.pid, struct.unpack("!I", payload)[0])

    def on_peek(self, number, _payload):
        command = self.commands.get(number)
        text = stacks_of_session(command.pid) if command else ""
        self.send(frames.STACKS, number, text.encode()[: frames.PAYLOAD_MAX])

    def on_window(self, number, payload):
        command = self.commands.get(number)
        if command is not None and command.stdin >= 0:
            rows, columns = struct.unpack("!II", payload)
            fcntl.ioctl(command.stdin, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def on_sync(self, number, _payload):
        self.read_kmsg()
        self.send(frames.SYNC, number)

    def on_poweroff(self, _number, _payload):
        """Powers the machine off. The kernel does that asynchronously and removes the root file system, so this never returns."""
        os.sync()
        trigger = os.open("/proc/sysrq-trigger", os.O_WRONLY)
        os.write(trigger, b"o")
        while True:
            pass


def drain(fd):
    try:
        while os.read(fd, 512):
            pass
    except BlockingIOError:
        pass


def stacks_of_session(leader):
    """Returns the name, state and kernel stack of each process of a command, to show why it hangs."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as stat:
                name, _, rest = stat.read().rpartition(")")
            if int(rest.split()[3]) != leader:
                continue
            with open(f"/proc/{entry}/stack") as stack:
                found.append(f"{name}) state {rest.split()[0]}\n{stack.read()}")
        except OSError:  # the process has ended in the meantime
            continue
    return "".join(found)


if __name__ == "__main__":
    os.environ.clear()
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))  # inherited by every command
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    port = os.open(find_port(), os.O_RDWR | os.O_NONBLOCK)
    Agent(port, port, os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)).run()
