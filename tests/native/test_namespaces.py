# SPDX-License-Identifier: Apache-2.0
"""`make lint` detects namespaces that do not match the folder of their file (tests/lint/namespaces.py)."""

from pathlib import Path

import pytest

from tests.lint.namespaces import check_namespaces

# Each of these files creates a folder of the tree.
FILES = ("lib/base/a.h", "lib/cache/a.h", "lib/cache/engine/a.h", "lib/io/a.h", "lib/io/rbd/a.h", "lib/io/rbd/plugin/a.h", "lib/kv/a.h",
         "lib/kv/store/a.h", "lib/reactor/sim/a.h", "lib/scsi/a.h", "target/a_main.cc", "target/cache/a.h", "tools/ycsb/a.cc", "tests/sim/a.h")
CLASS = "class A {\n    int a_;\n};\n"


@pytest.fixture
def findings(tmp_path):
    """Returns the findings for a file with the given text."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")

    def check(name, text):
        (tmp_path / name).write_text(text)
        return list(check_namespaces([Path(name) for name in FILES], tmp_path))

    return check


def block(name, body=CLASS):
    return f"namespace {name} {{\n\n{body}\n}}  // namespace {name}\n"


@pytest.mark.parametrize("file, namespace", [
    ("lib/base/a.h", "wss"), ("lib/base/a.h", "wss::log"), ("target/a_main.cc", "wss"),
    ("lib/cache/a.h", "wss::cache"), ("target/cache/a.h", "wss::cache"), ("tools/ycsb/a.cc", "wss::ycsb"),
    ("lib/kv/store/a.h", "wss::kv::store"), ("lib/kv/store/a.h", "wss::kv"),
    ("lib/io/rbd/plugin/a.h", "wss::io::rbd"), ("lib/io/rbd/plugin/a.h", "wss::io"),
    ("lib/scsi/a.h", "wss::scsi::sense"), ("lib/reactor/sim/a.h", "wss::sim"), ("tests/sim/a.h", "wss::io"),
])
def test_lint_accepts_the_namespace_of_the_folder_or_of_its_parent(findings, file, namespace):
    assert findings(file, block(namespace)) == []


@pytest.mark.parametrize("file, namespace, expected", [
    ("target/cache/a.h", "wss::se", "wss::cache"),
    ("tools/ycsb/a.cc", "wss::kv::ycsb", "wss::ycsb"),
    ("lib/kv/a.h", "wss::kv::store", "wss::kv"),
    ("lib/base/a.h", "wss::cache", "wss"),
    ("lib/cache/engine/a.h", "wss", "wss::cache::engine"),
    ("lib/cache/engine/a.h", "cache", "wss::cache::engine"),
    ("target/a_main.cc", "wss::cache", "wss"),
    ("lib/io/a.h", "wss::sim", "wss::io"),
])
def test_lint_reports_another_namespace_and_names_the_right_one(findings, file, namespace, expected):
    [finding] = findings(file, "// A comment.\n" + block(namespace))
    assert finding.startswith(f"{file}:2: namespace {namespace} in {Path(file).parent}/: ") and f", so {expected} (" in finding


@pytest.mark.parametrize("body", [
    "void a();\n", "int a() { return 1; }\n", "using A = int;\n", "constexpr int kA = 1;\n", "namespace {\nint a() { return 1; }\n}\n",
    "class A;\nclass B final : A {};\n", "extern template class A<int>;\n", "enum A { kA };\n",
], ids=["prototype", "function", "alias", "constant", "unnamed", "second", "instance", "enum"])
def test_lint_reports_anything_but_forward_declarations(findings, body):
    assert len(findings("lib/io/a.h", block("wss::cache", body))) == 1


@pytest.mark.parametrize("text", [
    block("wss::cache", "class A;\nstruct B;  // { of a line }\nenum class C : uint8_t;\ntemplate <typename T>\nclass D;\n"),
    block("CLI", "class App;\n"),
    "namespace wss {\n" + block("cache", "class A;\n") + block("io") + "}\n",
    "namespace fs = std::filesystem;\nusing namespace wss::cache;\n" + block("wss::io"),
    '// namespace wss::cache {\nconst char* text = "namespace wss::cache { int a; }";\n#define A namespace wss::cache {\n',
    block("wss::io", "const char* text = R\"(} }\")\";\nchar close = '}', quote = '\"';\nint million = 1'000'000;\n") + CLASS,
    block("wss::io", "void a() {\n    using namespace wss::cache;\n    { int b; }\n}\n"),
], ids=["forward", "foreign", "nested", "alias", "comment", "literals", "blocks"])
def test_lint_accepts_forward_declarations_and_other_uses_of_namespaces(findings, text):
    assert findings("lib/io/a.h", text) == []


def test_lint_reports_each_wrong_block_once(findings):
    text = block("wss::cache", CLASS + CLASS) + block("wss::cache", "class A;\n") + block("wss::io") + "namespace wss {\n" + block("kv") + "}\n"
    lines = [finding.split(":")[1] for finding in findings("lib/io/a.h", text)]
    assert lines == ["1", str(text[: text.index("namespace kv")].count("\n") + 1)]
