# SPDX-License-Identifier: Apache-2.0
"""Each way in which a target can end a command has its errno, the one that sd gives, and is retried where that may help."""

from tests.system.behaviour.rig import PARAMETERS, SESSION, Rig

STATS = f"{SESSION}/stats"

# Ends a read in each way, and says the errno and how often the request was sent again.
SCRIPT = """
import errno, mmap, os, sys
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
    try:
        os.preadv(fd, [page], 0)
        said = "OK"
    except OSError as error:
        said = errno.errorcode[error.errno]
    put("force_error", 0)
    print(ending, said, retries() - before)
put("force_sense", 0x020b0000)
"""
# SAM status, sense key, ASC, ASCQ -> errno of a read, and whether it was sent again before
ENDINGS = {
    0x02010000: ("OK", False),  # recovered error: the data is there
    0x02020401: ("EIO", True),  # becoming ready
    0x02023A00: ("ENODEV", False),  # no medium
    0x02031100: ("ENODATA", False),  # unrecovered read error
    0x02030C00: ("EIO", False),  # write error, and how a flush fails
    0x02044400: ("EREMOTEIO", False),  # internal target failure
    0x02052000: ("EREMOTEIO", False),  # invalid operation code
    0x02052100: ("EIO", False),  # beyond the end
    0x02051001: ("EILSEQ", False),  # a guard of the protection information
    0x02062900: ("EIO", True),  # reset occurred, again and again
    0x02062A09: ("EIO", True),  # capacity changed, again and again
    0x02072700: ("EREMOTEIO", False),  # write protected
    0x02072707: ("ENOSPC", False),  # space allocation failed
    0x020B0000: ("EIO", True),  # aborted command
    0x020D0000: ("EREMOTEIO", False),  # volume overflow
    0x020E1D00: ("EREMOTEIO", False),  # miscompare
    0x02000000: ("EIO", False),  # check condition that says nothing
    0x08000000: ("EIO", True),  # busy
    0x18000000: ("EBADE", False),  # reservation conflict
    0x28000000: ("EIO", True),  # task set full
    0x40000000: ("EIO", True),  # task aborted
}


def test_sense_and_status(rig: Rig) -> None:
    device = rig.map("a")
    rig.set("force_error", 0)
    rig.vm.write("/tmp/endings.py", SCRIPT)
    words = " ".join(str(ending) for ending in ENDINGS)
    seen = {}
    for line in rig.vm.run(f"python3 -B /tmp/endings.py {device} {PARAMETERS} {STATS} {words}; rm /tmp/endings.py", 120).stdout.splitlines():
        ending, said, retries = line.split()
        seen[hex(int(ending))] = (said, int(retries) > 0)
    assert seen == {hex(ending): expected for ending, expected in ENDINGS.items()}
    rig.driver.assert_nothing_leaks()
