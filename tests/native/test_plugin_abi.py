# SPDX-License-Identifier: Apache-2.0
"""`make lint` detects that the declarations shared by programs and plug-ins have changed while kPluginAbi was
not raised (tests/lint/plugin_abi.py)."""

import re
import shutil
import subprocess

import pytest

from tests.lint.plugin_abi import HEADER, NUMBER, ROOT, check_plugin_abi, shared_headers


@pytest.fixture
def tree(tmp_path):
    """A committed copy of the headers."""
    for header in shared_headers(ROOT):
        (tmp_path / header).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / header, tmp_path / header)
    for words in (("init", "-q"), ("add", "-A"), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "a")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def take_advice(tree, finding):
    """Writes the line that a finding proposes, and returns its number."""
    line = re.search("write '(.*)'", finding).group(1)
    header = tree / HEADER
    header.write_text(NUMBER.sub(line, header.read_text()))
    return int(NUMBER.search(line).group(1))


def number_of(tree):
    return int(NUMBER.search((tree / HEADER).read_text()).group(1))


def test_lint_checks_the_headers_that_a_compiler_reads():
    read = subprocess.run(["g++", "-std=c++20", "-MM", "-I.", "-x", "c++", HEADER], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert set(shared_headers(ROOT)) == set(read.replace("\\\n", " ").split()[1:])


def test_lint_ignores_comments_layout_and_the_order_of_includes(tree):
    edit(tree / "lib/io/backend.h", "struct Limits {", "/* of\n it */ struct\n  Limits { // so")
    edit(tree / "lib/io/backend.h", "#include <cstddef>\n#include <cstdint>\n", "#include <cstdint>\n#include <cstddef>\n")
    assert list(check_plugin_abi(tree)) == []


@pytest.mark.parametrize("header, old, new", [
    ("lib/io/backend.h", "virtual bool lost() const noexcept { return false; }", "virtual bool lost() const noexcept { return false; }\nvirtual void more() {}"),
    ("lib/io/backend.h", "uint32_t physical_block = 4096;", "uint64_t physical_block = 4096;"),
    ("lib/io/backend.h", "bool steal = false;", "bool steal = true;"),
    ("lib/io/plugin.h", "void (*end_waits)() = nullptr;", ""),
    ("lib/io/plugin.h", '"wss_io_plugin"', '"wss_io_plug  in"'),
    ("lib/reactor/reactor.h", "int error_ = 0;", ""),
    ("lib/base/clock.h", "int64_t count = 0;", "int32_t count = 0;"),
], ids=lambda word: re.sub(r"\W+", "-", word)[:30])
def test_lint_reports_a_change_until_the_number_is_raised(tree, header, old, new):
    number = number_of(tree)
    edit(tree / header, old, new)
    [finding] = check_plugin_abi(tree)
    assert take_advice(tree, finding) == number + 1
    assert list(check_plugin_abi(tree)) == []
    # A further change before the commit needs no other number.
    edit(tree / "lib/io/backend.h", "bool rotational = false;", "bool rotates = false;")
    [finding] = check_plugin_abi(tree)
    assert take_advice(tree, finding) == number + 1
    assert list(check_plugin_abi(tree)) == []


def test_lint_reports_a_number_without_its_digest(tree):
    number = number_of(tree)
    edit(tree / HEADER, f"kPluginAbi = {number};", f"kPluginAbi = {number + 1};")
    [finding] = check_plugin_abi(tree)
    assert take_advice(tree, finding) == number + 1
    edit(tree / HEADER, "constexpr uint32_t kPluginAbi", "constexpr uint64_t kPluginAbi")
    assert len(list(check_plugin_abi(tree))) == 1
