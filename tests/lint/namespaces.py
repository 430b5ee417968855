# SPDX-License-Identifier: Apache-2.0
"""The namespace of a file below lib/, target/ or tools/ is that of its folder without this first part: lib/io/rbd is wss::io::rbd,
tools/kvctl is wss::kvctl, lib/base and target are wss. A folder that only divides its parent may use the parent's namespace
(lib/kv/client: wss::kv). A file may nest further namespaces in these if no folder has their names (wss::scsi::sense). A file may
forward-declare types of any namespace."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("lib", "target", "tools")
ROOT_FOLDERS = ("lib/base", *TOPS)  # wss itself
# tests/sim, the simulations that use this clock and network, has the same namespace.
OTHERWISE = {"lib/reactor/sim": "wss::sim"}

BLANKED = re.compile(r"""//[^\n]*|/\*.*?\*/|\bR"(?P<end>[^(\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|\b\d(?:'?\w)*|'(?:\\.|[^'\\\n])+'"""
                     r"|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)
# The start of a namespace, of another block, and the ends of blocks and declarations.
MARK = re.compile(r"\bnamespace\b(?P<name>[\w\s:]*)\{|(?P<block>\{)|(?P<end>\})|(?P<stop>;)")
FORWARD = re.compile(r"(?:template\s*<[^{};]*>\s*)?(?:class|struct|union|enum(?:\s+class|\s+struct)?)\s+\w+(?:\s*:[\s\w:]+)?$")


def blanked(text: str) -> str:
    """The text without comments, literals and preprocessor lines, but with its newlines."""
    return BLANKED.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def namespace_of(folder: Path) -> str:
    if str(folder) in ROOT_FOLDERS:
        return "wss"
    return OTHERWISE.get(str(folder)) or "::".join(("wss", *folder.parts[1:]))


def defining_namespaces(text: str):
    """(line, name) of each named namespace with definitions, once for every block with that name. What an unnamed namespace
    contains counts for the namespace around it."""
    text = blanked(text)
    open_blocks, reported, begin = [], set(), 0  # open_blocks: line and namespace, or None

    def found(declaration: str):
        if open_blocks and open_blocks[-1] not in reported and declaration.strip() and not FORWARD.fullmatch(declaration.strip()):
            reported.add(open_blocks[-1])
            yield open_blocks[-1]

    for mark in MARK.finditer(text):
        declaration, begin = text[begin : mark.start()], mark.end()
        if mark.group("end"):
            if open_blocks:
                open_blocks.pop()
        elif any(block is None for block in open_blocks):
            if not mark.group("stop"):
                open_blocks.append(None)
        elif mark.group("name") is not None:
            inner = re.sub(r"\binline\b|\s", "", mark.group("name"))
            if inner and open_blocks:
                inner = f"{open_blocks[-1][1]}::{inner}".removeprefix("::")
            line = text.count("\n", 0, mark.start()) + 1
            open_blocks.append((line, inner) if inner or not open_blocks else open_blocks[-1])
        else:
            yield from found(declaration + (mark.group("block") or ""))
            if mark.group("block"):
                open_blocks.append(None)


def check_namespaces(paths: list[Path], root: Path = ROOT):
    sources = [path for path in paths if path.suffix in (".h", ".cc") and path.parts[0] in TOPS]
    folders = {folder for path in sources for folder in path.parents if str(folder) != "."}
    of_folders = {namespace_of(folder) for folder in folders}
    for path in sources:
        own = namespace_of(path.parent)
        allowed = {own} | {namespace_of(folder) for folder in path.parents if len(folder.parts) > 1}
        for line, name in defining_namespaces((root / path).read_text(errors="replace")):
            # The longest prefix of this namespace that is the namespace of a folder.
            parts = name.split("::")
            outer = next((n for n in ("::".join(parts[:end]) for end in range(len(parts), 0, -1)) if n in of_folders), "")
            if name and outer not in allowed:
                yield f"{path}:{line}: namespace {name} in {path.parent}/: it follows the folder, so {own} (tests/lint/namespaces.py)"
