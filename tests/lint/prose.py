# SPDX-License-Identifier: Apache-2.0
"""Rules about text: commit subjects, rule names, comments, documents (Documentation/CONTRIBUTING.md). Each
function check_…() is one rule and yields findings; tests/lint/check runs them."""

import re
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# ---- Commit subjects

SUBJECTS_SINCE = 1795448700  # 2026-11-23 15:45 UTC: older commits are exempt
SUBJECT_MAX = 72
SUBJECT = re.compile(r"[A-Za-z0-9_./-]+(, [A-Za-z0-9_./-]+)*: ([a-z][a-z-]*)\b")
NO_VERBS = set("a an the it its who what which how where when why no not nobody nothing there this that these those one two three each every all "
               "some any many most more also of for from in on at by with without after before and or but another others".split())
# Endings of participles and of the third person, and the verbs with these endings in their base form.
INFLECTED = re.compile(r"(ed|ing|[^s]s)$")
UNINFLECTED = set("need embed feed exceed proceed succeed shed speed seed bring ring ping string focus bias alias".split())


def subject_fault(subject: str) -> str | None:
    if subject.startswith(("Merge ", 'Revert "')):
        return None
    if len(subject) > SUBJECT_MAX:
        return f"{len(subject)} characters, more than {SUBJECT_MAX}"
    match = SUBJECT.match(subject)
    if not match:
        return "not of the form 'area: verb …'"
    verb = match.group(2)
    if verb in NO_VERBS or INFLECTED.search(verb) and verb not in UNINFLECTED:
        return f"'{verb}' is not an imperative"
    return None


def check_subjects():
    log = subprocess.run(["git", "log", f"--since=@{SUBJECTS_SINCE}", "--format=%at %h %s"], cwd=ROOT, capture_output=True, text=True)
    for line in log.stdout.splitlines():  # empty outside of a repository
        when, commit, subject = (line.split(" ", 2) + [""])[:3]
        fault = subject_fault(subject)
        if int(when) >= SUBJECTS_SINCE and fault:
            yield f"commit {commit}: {fault}: {subject}"


# ---- Rule names

RULE = re.compile(r"^\s*(?://|\*) {1,4}([A-Z]{1,3})(\d{1,2})  \S")
# The texts of a list are aligned, so the text of a rule with a two-digit number may follow after a single
# space. It begins with a capital letter, unlike that in "S10 of store.h".
LONG_RULE = re.compile(r"^\s*(?://|\*) {1,4}([A-Z]{1,3})(\d\d) [A-Z]")
ARCHITECTURE = Path("Documentation/architecture.md")
RULE_RANGE = re.compile(r"`([\w./-]+\.h)` (([A-Z]{1,3})\d{1,2}(?:–[A-Z]{1,3}\d{1,2})?)")


def rules_of(lines: list[str]) -> dict[str, set[int]]:
    """Returns the numbers of the rules that a header defines, by prefix."""
    numbers = defaultdict(set)
    for line in lines:
        if match := RULE.match(line):
            numbers[match.group(1)].add(int(match.group(2)))
    for line in lines:
        if (match := LONG_RULE.match(line)) and match.group(1) in numbers:
            numbers[match.group(1)].add(int(match.group(2)))
    return numbers


def defined_rules(paths: list[Path], root: Path = ROOT) -> dict[str, dict[str, set[int]]]:
    """Returns the numbers of the rules of all headers, by prefix and header."""
    defined = defaultdict(dict)
    for path in paths:
        if path.suffix == ".h" and not str(path).startswith("tests/"):
            for prefix, numbers in rules_of((root / path).read_text(errors="replace").splitlines()).items():
                defined[prefix][str(path)] = numbers
    return defined


def check_rule_prefixes(paths: list[Path]):
    """A prefix such as SE in SE1 is defined in one header, so that a citation names one rule."""
    for prefix, headers in sorted(defined_rules(paths).items()):
        if len(headers) > 1:
            yield f"rule prefix {prefix} is defined in {', '.join(sorted(headers))}: take another one (Documentation/glossary.md)"


def range_of(prefix: str, numbers: set[int]) -> str:
    first, last = (f"{prefix}{number}" for number in (min(numbers), max(numbers)))
    return first if first == last else f"{first}–{last}"


def check_rule_ranges(paths: list[Path], root: Path = ROOT):
    """The table of parts in architecture.md names the rules of each header, for example "`cache/cache.h` SE1–SE7". Ranges
    elsewhere on that page are complete, too."""
    defined = defined_rules(paths, root)
    missing = {(prefix, header) for prefix, headers in defined.items() for header in headers}
    section = ""
    for number, line in enumerate((root / ARCHITECTURE).read_text().splitlines(), 1):
        section = line if line.startswith("## ") else section
        for name, named, prefix in RULE_RANGE.findall(line):
            header = next((path for path in defined.get(prefix, ()) if f"/{path}".endswith(f"/{name}")), None)
            rules = header and range_of(prefix, defined[prefix][header])
            if section == "## Parts":
                missing.discard((prefix, header))
            if header is None:
                yield f"{ARCHITECTURE}:{number}: {name} defines no rules {prefix}"
            elif named != rules and (section == "## Parts" or "–" in named):
                yield f"{ARCHITECTURE}:{number}: {name} {named}: {header} defines {rules}"
    for prefix, header in sorted(missing):
        yield f"{ARCHITECTURE}: the table of parts lacks {header} {range_of(prefix, defined[prefix][header])}"


# ---- Comments

COMMENT = re.compile(r"^\s*//( *)(\S.*)$")
FUSED_RULE = re.compile(r"[.:;)] {1,2}[A-Z]{1,3}\d{1,2}  \S")
COMMENT_COLUMNS = 110  # clang-format does not wrap comments (.clang-format), so that rules and diagrams stay as they were drawn


def check_comments(paths: list[Path]):
    """In C++ files, comments on lines of their own fit the column limit, and each rule of a header begins on
    its own line."""
    for path in paths:
        if path.suffix not in (".h", ".cc") or str(path).startswith("kernel/"):
            continue
        for number, line in enumerate((ROOT / path).read_text(errors="replace").splitlines(), 1):
            if COMMENT.match(line) is None:
                continue
            if len(line) > COMMENT_COLUMNS:
                yield f"{path}:{number}: a comment of {len(line)} columns, more than {COMMENT_COLUMNS}"
            if FUSED_RULE.search(line):
                yield f"{path}:{number}: a rule begins behind another one: give it a line of its own"


# ---- Documents

DOCUMENTS = ("README.md", "Documentation/")
# The glossary names the retired words.
EXEMPT = {"Documentation/glossary.md"}
RETIRED = {
    r"lobby": "pending authentication",
    r"distrust\w*": "quarantine",
    r"bays?": "staging buffer",
    r"DO_AGAIN": "RETRY",
    r"hurry|hurries": "flush completions",
    r"judged?|judges|verdicts?": "check, disposition",
    r"bury|buries|buried": "retire",
    r"pieces?": "sub-block (of a line), segment (of a request)",
    r"breathes?": "maybe_poll",
    r"told|said|heard": "notified, reported, received, requested",
    r"bells?": "doorbell, wake-up",
    r"strangers?": "unauthenticated peer",
}
LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)")


def documents(paths: list[Path]):
    return [path for path in paths if path.suffix == ".md" and str(path).startswith(DOCUMENTS)]


def prose_lines(path: Path):
    """Yields (number, text) of each line that is not in a fenced or indented block, without code spans."""
    fenced = False
    for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield number, re.sub(r"`[^`]*`", "`", line)


def check_retired_words(paths: list[Path]):
    word = re.compile(r"\b(" + "|".join(f"(?:{pattern})" for pattern in RETIRED) + r")\b", re.I)
    for path in documents(paths):
        if str(path) in EXEMPT:
            continue
        for number, line in prose_lines(path):
            for found in word.findall(line):
                instead = next(term for pattern, term in RETIRED.items() if re.fullmatch(pattern, found, re.I))
                yield f"{path}:{number}: '{found}' is retired: {instead} (Documentation/glossary.md)"


def check_links(paths: list[Path]):
    for path in documents(paths):
        for number, line in prose_lines(path):
            for target in LINK.findall(line):
                if not (ROOT / path.parent / target).exists():
                    yield f"{path}:{number}: {target} does not exist"


def check_decisions(paths: list[Path]):
    """Decisions are numbered from 0001 without gaps, and the title repeats the number."""
    pages = sorted(path for path in paths if path.parent == Path("Documentation/decisions"))
    for number, page in enumerate(pages, 1):
        if not page.name.startswith(f"{number:04}-"):
            yield f"{page}: should be number {number:04}: decisions have no gaps"
        elif not (ROOT / page).read_text().startswith(f"# {number:04}: "):
            yield f"{page}:1: the title should begin with '# {number:04}: '"


def check_metrics(paths: list[Path]):
    """metrics.md names every exported metric whose name begins with one of these prefixes, and no other such
    metric."""
    page = (ROOT / "Documentation/metrics.md").read_text()
    exported = set()
    for path in paths:
        if str(path).startswith(("target/", "lib/", "tools/wssctl/")) and path.suffix == ".cc":
            exported |= set(re.findall(r'"(wss_(?:block|volume|cache|engine|kv|driver)_[a-z_]+)"', (ROOT / path).read_text()))
    exported = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported}
    documented = set(re.findall(r"\bwss_(?:block|volume|cache|engine|kv|driver)_[a-z_]+", page)) - {"wss_block_", "wss_driver_"}
    # `wssctl metrics` names these after sysfs files; tests/native/test_wssctl.py checks them.
    documented -= {"wss_driver_regions_active", "wss_driver_dma_mapped"}
    for name in sorted(exported - documented):
        yield f"Documentation/metrics.md: {name} is missing"
    for name in sorted(documented - exported):
        yield f"Documentation/metrics.md: no program exports {name}"


def check_prose(paths: list[Path]):
    yield from check_subjects()
    for rule in (check_rule_prefixes, check_rule_ranges, check_comments, check_retired_words, check_links, check_decisions, check_metrics):
        yield from rule(paths)
