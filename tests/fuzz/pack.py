#!/usr/bin/python3
"""Packs the files of a folder, such as libFuzzer leaves behind, into one file of inputs that tests/fuzz replays.

    tests/fuzz/pack.py FOLDER > tests/fuzz/corpus/READER/found.packed
"""
import pathlib
import sys

for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    data = path.read_bytes()
    sys.stdout.buffer.write(b"%d\n" % len(data) + data)
