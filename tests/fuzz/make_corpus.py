#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the readable seeds of a fuzzer (corpus/NAME.hex) into the files that libFuzzer reads.

usage: make_corpus.py SEEDS.hex DIRECTORY
"""
import pathlib
import sys


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    directory = pathlib.Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    for number, line in enumerate(pathlib.Path(sys.argv[1]).read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, separator, digits = line.partition(":")
        try:
            if not separator:
                raise ValueError("no colon behind the name")
            (directory / name.strip()).write_bytes(bytes.fromhex("".join(digits.split())))
        except ValueError as error:
            print(f"{sys.argv[1]}:{number}: {error}; wanted NAME: HEXADECIMAL DIGITS", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
