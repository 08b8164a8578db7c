#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares what tests/dump_gguf says of a file with what the package gguf reads from it.

  compare_gguf.py DUMP_GGUF MODEL...      for example  compare_gguf.py build/dump_gguf m.gguf

Keys, types, values, and the names, types, shapes, sizes, offsets and bytes of tensors must be the
same; strings and tensors are compared by their FNV-1a-64 sums, numbers by their text.
"""
import subprocess
import sys

import gguf
import numpy as np

TYPE_NAMES = {0: "u8", 1: "i8", 2: "u16", 3: "i16", 4: "u32", 5: "i32", 6: "f32", 7: "bool",
              8: "string", 9: "array", 10: "u64", 11: "i64", 12: "f64"}


def fnv1a(data, h=0xCBF29CE484222325):
    for b in data:
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def number(value):
    if isinstance(value, np.floating):
        return "%.17g" % float(value)
    return str(int(value))


def describe_entry(field):
    kind = TYPE_NAMES[int(field.types[0])]
    if kind == "string":
        return f"{kind} {fnv1a(bytes(field.parts[-1])):016x}"
    if kind != "array":
        return f"{kind} {number(field.parts[-1][0])}"
    n = len(field.data)
    # An empty array is read without its items' type.
    item = TYPE_NAMES[int(field.types[1])] if len(field.types) > 1 else "?"
    h = 0xCBF29CE484222325
    for i in field.data:
        part = field.parts[i]
        h = fnv1a(bytes(part) + b"\0" if item == "string" else part.tobytes(), h)
    return f"{kind} {item} {n} {h:016x}"


def describe(path):
    reader = gguf.GGUFReader(path)
    for name, field in reader.fields.items():
        if not name.startswith("GGUF."):
            yield f"key {name} {describe_entry(field)}"
    for t in reader.tensors:
        shape = ",".join(str(int(d)) for d in t.shape)
        data = np.asarray(t.data).reshape(-1).view(np.uint8)
        # Whole tensors would take Python minutes: both ends, and every 4099th byte between.
        picked = bytes(data[:256]) + bytes(data[::4099]) + bytes(data[-256:])
        yield (f"tensor {t.name} {int(t.tensor_type)} {shape} {int(t.n_bytes)} "
               f"{int(t.data_offset)} {fnv1a(picked):016x}")


def main():
    dump, paths = sys.argv[1], sys.argv[2:]
    n_bad = 0
    for path in paths:
        ours = subprocess.run([dump, path], check=True, capture_output=True).stdout.decode().splitlines()
        theirs = list(describe(path))
        bad = [(a, b) for a, b in zip(ours, theirs) if a != b]
        for a, b in bad[:10]:
            print(f"ours   {a}\ntheirs {b}")
        if len(ours) != len(theirs):
            print(f"{len(ours)} lines, expected {len(theirs)}")
        n_bad += len(bad) + abs(len(ours) - len(theirs))
        print(f"{path}: {len(theirs)} entries and tensors, {len(bad)} differ")
    sys.exit(1 if n_bad else 0)


if __name__ == "__main__":
    main()
