# SPDX-License-Identifier: Apache-2.0
"""kPluginAbi (lib/io/plugin.h) must be raised with each change of the declarations that programs and plug-ins
share: that header and the project's headers that it includes. The digest beside the number covers both,
without comments, layout and order of includes, so it does not match any other declarations with the same
number. If they differ, the finding names the next number with its digest."""

import hashlib
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = "lib/io/plugin.h"
NUMBER = re.compile(r"^constexpr uint32_t kPluginAbi = (\d+);(?:  // shared: (\w+))?$", re.M)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(?:"([^"]+)"|<[^>]+>)', re.M)
TOKEN = re.compile(r"""(?P<comment>//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|\.?\d(?:'?[\w.])*|'(?:\\.|[^'\\\n])+'|\w+|[^\s\\]""", re.S)


def tokens(text: str) -> list[str]:
    return [match.group() for match in TOKEN.finditer(text) if match.group("comment") is None]


def shared_headers(root: Path) -> list[str]:
    found, left = set(), [HEADER]
    while left:
        header = left.pop()
        if header not in found and (root / header).is_file():
            found.add(header)
            left += filter(None, INCLUDE.findall((root / header).read_text()))
    return sorted(found)


def digest(root: Path, number: int) -> str:
    text = [str(number)]
    for header in shared_headers(root):
        text += tokens(INCLUDE.sub("", NUMBER.sub("", (root / header).read_text())))
    return hashlib.sha256("\n".join(text).encode()).hexdigest()[:12]


def committed_number(root: Path) -> int:
    """Returns the committed number, or 0 if there is none or this is not a repository."""
    shown = subprocess.run(["git", "show", f"HEAD:{HEADER}"], cwd=root, capture_output=True, text=True)
    match = NUMBER.search(shown.stdout)
    return int(match.group(1)) if match else 0


def check_plugin_abi(root: Path = ROOT):
    match = NUMBER.search((root / HEADER).read_text())
    if match is None:
        yield f"{HEADER}: no line 'constexpr uint32_t kPluginAbi = NUMBER;  // shared: DIGEST'"
        return
    number, recorded = int(match.group(1)), match.group(2)
    if recorded == digest(root, number):
        return
    # A number that was raised since the commit is already the next one.
    committed = committed_number(root)
    following = number if number > committed > 0 else number + 1
    yield (f"{HEADER}: what programs and plug-ins share has changed ({', '.join(shared_headers(root))}), and a program would crash "
           f"with an older plug-in: write 'constexpr uint32_t kPluginAbi = {following};  // shared: {digest(root, following)}'")
