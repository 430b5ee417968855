# SPDX-License-Identifier: Apache-2.0
"""Tests the C API in the way a C programmer uses it: with only the header and the shared library."""

import os
import sys
from pathlib import Path

import pytest

from .ports import free_port
from .programs import AS_USER, BUILD, Target, run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    program = tmp_path_factory.mktemp("c") / "client"
    run("cc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", ROOT / "lib/initiator",
        ROOT / "tests/native/client.c", "-o", program, "-L", BUILD, "-l:libwss.so", f"-Wl,-rpath,{BUILD}")
    # The program loads the library by its versioned name; the build directory has the plain name.
    link = program.parent / "libwss.so.0"
    link.symlink_to(BUILD / "libwss.so")
    return program


def test_every_function_of_libwss_works_from_c(client, target):
    done = run(client, target.address, "ram", env={"LD_LIBRARY_PATH": str(client.parent)}, timeout=60)
    assert done.stdout == f"{1536 * 1024 * 1024} bytes\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_libwss_reports_that_no_thread_can_be_created(client, target):
    failed = run(*AS_USER, "prlimit", "--nproc=1", client, target.address, "ram", env={"LD_LIBRARY_PATH": str(client.parent)}, check=False)
    assert failed.returncode == 1 and "cannot create a thread for the connection (TasksMax, ulimit -u)" in failed.stderr, failed


# For each number of free descriptors, connects in a child process. Prints the results. Arguments: the
# library, its function that connects, its function that returns the error, an address.
CONNECT = """
import ctypes, os, resource, sys
library = ctypes.CDLL(sys.argv[1])
connect, error = (getattr(library, name) for name in sys.argv[2:4])
error.restype = ctypes.c_char_p
for left in range(24):
    sys.stdout.flush()
    if os.fork() == 0:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3 + left, 3 + left))
        handle = ctypes.c_void_p()
        result = connect(sys.argv[4].encode(), None, ctypes.byref(handle))
        print(left, result, error().decode(), flush=True)
        os._exit(0)
    status = os.wait()[1]
    if status != 0:
        print(left, "ended with status", status)
"""


@pytest.mark.parametrize("api", ["wss", "wss_kv"])
def test_libwss_reports_that_no_descriptor_is_left(api, tmp_path):
    kv = f"tcp://127.0.0.1:{free_port()}"
    with Target("tcp://127.0.0.1:0", {"ram": "ram:64M"}, tmp_path, "--kv-listen", kv) as target:
        address = kv if api == "wss_kv" else target.address
        lines = run(sys.executable, "-c", CONNECT, BUILD / "libwss.so", f"{api}_connect", f"{api}_error", address).stdout.splitlines()
    assert len(lines) == 24
    failed = [line for line in lines if line.split()[1] != "0"]
    assert lines[:len(failed)] == failed and 3 < len(failed) < 24, lines
    assert all("Too many open files" in line for line in failed), failed


def test_library_exports_only_its_api():
    symbols = run("nm", "-D", "--defined-only", BUILD / "libwss.so").stdout.split()[2::3]
    exported = {symbol.split("@")[0] for symbol in symbols} - {"WSS_0"}
    header = "".join((ROOT / path).read_text() for path in ("lib/initiator/wss.h", "lib/kv/client/wss_kv.h"))
    assert exported and all(f"{symbol}(" in header for symbol in exported)
