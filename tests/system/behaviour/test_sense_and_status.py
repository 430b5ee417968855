# SPDX-License-Identifier: Apache-2.0
"""For each status of a command, a user gets the same errno as from sd, and the command is retried if that may
help."""

from collections.abc import Iterable

from tests.system.behaviour.rig import PARAMETERS, SESSION, Rig

STATS = f"{SESSION}/stats"

# Makes a read end with each status, and prints the errno, the number of retries and the time.
SCRIPT = """
import errno, mmap, os, sys, time
device, parameters, stats, *endings = sys.argv[1:]
fd = os.open(device, os.O_RDWR | os.O_DIRECT)
page = mmap.mmap(-1, 4096)

def put(name, value):
    with open(f"{parameters}/{name}", "w") as file:
        file.write(str(value))

def retries():
    with open(f"{stats}/retries") as file:
        return int(file.read())

for ending in endings:
    put("force_sense", int(ending))
    before = retries()
    put("force_error", 1)
    start = time.monotonic()
    try:
        os.preadv(fd, [page], 0)
        said = "OK"
    except OSError as error:
        said = errno.errorcode[error.errno]
    seconds = time.monotonic() - start
    put("force_error", 0)
    print(ending, said, retries() - before, seconds)
put("force_sense", 0x020b0000)
"""
IO_TIMEOUT_MS = 500
# SCSI retries a command to a busy unit for as long as the first attempt and five retries may take together.
BUSY_SECONDS = 6 * IO_TIMEOUT_MS / 1000
# SAM status, sense key, ASC, ASCQ -> errno of a read, and whether the driver retried it
ENDINGS = {
    0x02010000: ("OK", False),  # recovered error: the data is valid
    0x02023A00: ("ENODEV", False),  # no medium
    0x02031100: ("ENODATA", False),  # unrecovered read error
    0x02030C00: ("EIO", False),  # write error, even of a flush
    0x02044400: ("EREMOTEIO", False),  # internal target failure
    0x02052000: ("EREMOTEIO", False),  # invalid operation code
    0x02052100: ("EIO", False),  # beyond the end
    0x02051001: ("EILSEQ", False),  # logical block guard check failed
    0x02062900: ("EIO", True),  # reset occurred, every time
    0x02062A09: ("EIO", True),  # capacity changed, every time
    0x02072700: ("EREMOTEIO", False),  # write protected
    0x02072707: ("ENOSPC", False),  # space allocation failed
    0x020B0000: ("EIO", True),  # aborted command
    0x020D0000: ("EREMOTEIO", False),  # volume overflow
    0x020E1D00: ("EREMOTEIO", False),  # miscompare
    0x02000000: ("EIO", False),  # check condition without information
    0x18000000: ("EBADE", False),  # reservation conflict
    0x40000000: ("EIO", True),  # task aborted
}
# These states are temporary: becoming ready, busy, task set full.
BUSY = (0x02020401, 0x08000000, 0x28000000)


def endings(rig: Rig, device: str, which: Iterable[int]) -> dict[int, tuple[str, int, float]]:
    """For each status, returns the errno, the retries and the seconds of a read that always ends with it."""
    rig.set("force_error", 0)
    rig.vm.write("/tmp/endings.py", SCRIPT)
    words = " ".join(str(ending) for ending in which)
    result = rig.vm.run(f"python3 -B /tmp/endings.py {device} {PARAMETERS} {STATS} {words}; rm /tmp/endings.py", 120)
    seen = {}
    for line in result.stdout.splitlines():
        ending, said, retries, seconds = line.split()
        seen[int(ending)] = (said, int(retries), float(seconds))
    return seen


def test_driver_translates_and_retries_each_status_as_sd_does(rig: Rig) -> None:
    seen = endings(rig, rig.map("a"), ENDINGS)
    assert {hex(ending): (said, retries > 0) for ending, (said, retries, _) in seen.items()} == {
        hex(ending): expected for ending, expected in ENDINGS.items()}
    rig.driver.assert_nothing_leaks()


def test_driver_fails_a_request_only_if_the_target_stays_busy_until_its_timeout(rig: Rig) -> None:
    device = rig.map("a")
    rig.io_timeout(device, IO_TIMEOUT_MS)
    for ending, (said, retries, seconds) in endings(rig, device, BUSY).items():
        assert said == "EIO" and retries > 5 and BUSY_SECONDS - 0.5 <= seconds < BUSY_SECONDS + 10, (hex(ending), said, retries, seconds)
    rig.driver.assert_nothing_leaks()


def test_driver_retries_until_a_busy_target_accepts_the_request(rig: Rig) -> None:
    device = rig.map("a")
    rig.set("force_sense", 0x28000000)
    rig.set("force_error", 1)
    reader = rig.vm.start(f"dd if={device} of=/dev/null bs=4k count=1 iflag=direct")
    rig.vm.run("sleep 3")  # much longer than five retries of 100 ms
    assert reader.running and rig.counters()["errors"] == 0
    rig.set("force_error", 0)
    rig.vm.run(f"echo {0x020b0000} > {PARAMETERS}/force_sense")
    assert reader.wait(30).status == 0, reader.stderr
    rig.assert_no_error()
