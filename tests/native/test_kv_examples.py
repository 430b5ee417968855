# SPDX-License-Identifier: Apache-2.0
"""Tests the examples of the key-value store. Each is built as its header comment describes, and run with a
store."""

import subprocess
from pathlib import Path

import pytest

from .kv import BUILD, Store
from .programs import run

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "Documentation/examples/kv"
LIBRARIES = "-libverbs -lrdmacm -laio -lspdlog -lfmt -lxxhash -lssl -lcrypto -lrocksdb -ldl".split()


@pytest.fixture(scope="module", params=["tcp", "shm"])
def store(request, tmp_path_factory):
    with Store(request.param, 3, tmp_path_factory.mktemp("kv")) as running:
        yield running


def test_index_example_in_c_stays_consistent(store, tmp_path):
    run("cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", ROOT / "lib/kv/client", EXAMPLES / "index.c", "-o", tmp_path / "index",
        "-L", BUILD, "-l:libwss.so", f"-Wl,-rpath,{tmp_path}")
    (tmp_path / "libwss.so.0").symlink_to(BUILD / "libwss.so")
    assert run(tmp_path / "index", store.target).stdout.endswith("5 entries, 0 out of step\n")


def test_transfer_example_in_c_loses_no_money(store, tmp_path):
    run("cc", "-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-I", ROOT / "lib/kv/client", EXAMPLES / "transfer.c", "-o",
        tmp_path / "transfer", "-L", BUILD, "-l:libwss.so", f"-Wl,-rpath,{tmp_path}")  # fmt: skip
    (tmp_path / "libwss.so.0").symlink_to(BUILD / "libwss.so")
    assert run(tmp_path / "transfer", store.target, timeout=100).stdout.endswith("5000 in all accounts\n")


def test_followers_example_in_cxx_reads_no_contradiction(store, tmp_path):
    run("c++", "-std=c++20", "-I", ROOT, "-pthread", EXAMPLES / "followers.cc", "-o", tmp_path / "followers", BUILD / "libwss.a", *LIBRARIES, timeout=200)
    assert run(tmp_path / "followers", store.target, timeout=60).stdout == "300 followers written, 600 reads, 0 contradictions\n"


C_API = r"""
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <wss_kv.h>
static int results[3], ended[3];
static void done(void* context, int result) { *(int*)context = result; ended[(int*)context - results] = 1; }
#define CHECK(x) do { if (!(x)) { fprintf(stderr, "line %d: %s: %s\n", __LINE__, #x, wss_kv_error()); return 1; } } while (0)
int main(int argc, char** argv) {
    struct wss_kv* kv = NULL;
    struct wss_kv_options options = {.size = sizeof options, .algorithm = 99};
    uint64_t at = 0, other = 0;
    CHECK(argc == 2);
    CHECK(wss_kv_connect(argv[1], &options, &kv) == -EINVAL && strlen(wss_kv_error()) > 0);
    CHECK(wss_kv_connect("gopher://x", NULL, &kv) < 0);
    CHECK(wss_kv_connect(NULL, NULL, &kv) == -EINVAL);
    options.algorithm = WSS_KV_RAMP_SMALL;
    CHECK(wss_kv_connect(argv[1], &options, &kv) == 0);
    struct wss_kv_write writes[] = {{"c:a", 3, "1", 1, 0}, {"c:b", 3, "\0\1", 2, 0}};
    CHECK(wss_kv_put_all(kv, writes, 2, 0, &at) == 0 && at != 0);
    struct wss_kv_read reads[] = {{.key = "c:a", .key_length = 3}, {.key = "c:b", .key_length = 3}, {.key = "c:none", .key_length = 6}};
    CHECK(wss_kv_get_all(kv, reads, 3) == 0);
    CHECK(reads[0].found && reads[0].timestamp == at && strcmp(reads[0].value, "1") == 0);
    CHECK(reads[1].found && reads[1].value_length == 2 && memcmp(reads[1].value, "\0\1", 3) == 0);
    CHECK(!reads[2].found && reads[2].value == NULL);
    wss_kv_release(reads, 3);
    struct wss_kv_write one = {"c:a", 3, "2", 1, 0};
    CHECK(wss_kv_put_if(kv, &one, 0, &other) == -EAGAIN);
    CHECK(wss_kv_put_if(kv, &one, at, &other) == 0 && other > at);
    CHECK(wss_kv_put_if(kv, &one, at, NULL) == -EAGAIN);
    struct wss_kv_condition watched[3];
    size_t failed = 9;
    CHECK(wss_kv_get_all(kv, reads, 3) == 0);
    wss_kv_watch(reads, 3, watched);
    wss_kv_release(reads, 3);
    CHECK(watched[0].expected == reads[0].timestamp && watched[2].expected == 0);
    struct wss_kv_write fresh = {"c:b", 3, "3", 1, 0};
    CHECK(wss_kv_put_all_if(kv, &fresh, 1, 0, watched, 3, &failed, &at) == 0 && at > other);
    CHECK(wss_kv_put_all_if(kv, &fresh, 1, 0, watched, 3, &failed, &other) == -EAGAIN && failed == 1 && other == at);
    CHECK(wss_kv_put_all_if(kv, NULL, 0, 0, watched, 1, NULL, NULL) == 0);
    CHECK(wss_kv_submit_put_all_if(kv, &fresh, 1, 0, watched, 3, &failed, &other, NULL, NULL) == -EINVAL);
    CHECK(wss_kv_submit_put_all_if(kv, &fresh, 1, 0, watched, 3, &failed, &other, done, &results[2]) == 0);
    while (!*(volatile int*)&ended[2]) usleep(100);
    CHECK(results[2] == -EAGAIN && failed == 1 && other == at);
    int64_t sum = 0;
    CHECK(wss_kv_increment(kv, "c:n", 3, INT64_MAX, &sum) == 0 && sum == INT64_MAX);
    CHECK(wss_kv_increment(kv, "c:n", 3, 1, &sum) == -ERANGE && sum == INT64_MAX);
    CHECK(wss_kv_increment(kv, "c:n", 3, -1, NULL) == 0);
    struct wss_kv_write text = {"c:n", 3, "x", 1, 0};
    CHECK(wss_kv_put_all(kv, &text, 1, 0, &other) == 0);
    CHECK(wss_kv_increment(kv, "c:n", 3, 1, &sum) == -EINVAL);
    struct wss_kv_write bad = {"", 0, "x", 1, 0};
    CHECK(wss_kv_put_all(kv, &bad, 1, 0, NULL) == -EINVAL);
    CHECK(wss_kv_submit_put_all(kv, writes, 2, 0, NULL, NULL, NULL) == -EINVAL);
    CHECK(wss_kv_submit_put_all(kv, writes, 2, 0, &at, done, &results[0]) == 0);
    while (!*(volatile int*)&ended[0]) usleep(100);
    CHECK(results[0] == 0 && at > other);
    CHECK(wss_kv_submit_get_all(kv, reads, 2, done, &results[1]) == 0);
    while (!*(volatile int*)&ended[1]) usleep(100);
    CHECK(results[1] == 0 && reads[1].found && reads[0].timestamp == at);
    wss_kv_release(reads, 2);
    wss_kv_disconnect(kv);
    puts("done");
    return 0;
}
"""


def test_every_function_of_the_c_api_works(store, tmp_path):
    (tmp_path / "api.c").write_text(C_API)
    run("cc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "lib/kv/client", tmp_path / "api.c", "-o", tmp_path / "api", "-L", BUILD,
        "-l:libwss.so", f"-Wl,-rpath,{tmp_path}")
    (tmp_path / "libwss.so.0").symlink_to(BUILD / "libwss.so")
    assert run(tmp_path / "api", store.target, timeout=60).stdout == "done\n"
