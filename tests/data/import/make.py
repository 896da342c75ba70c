#!/usr/bin/env python3
"""Writes what Python makes of plain data, next to itself: small and large values, as pickles of protocols 2 to 5 and as
JSON. The pickles of Python's two picklers differ; both are here."""

import gzip
import io
import json
import pathlib
import pickle

HERE = pathlib.Path(__file__).parent

frame = {"name": "forward", "filename": "model.py", "line": 281}
small = {
    "none": None,
    "true": True,
    "false": False,
    "integers": [0, 1, 255, 256, 65535, 65536, -1, -128, 2**31 - 1, 2**31, -(2**31), 2**40, -(2**40), 2**63 - 1, -(2**63)],
    "large": [2**63, -(2**63) - 1, 2**80, 10**30],
    "reals": [0.0, 0.5, -1.25, 1e300, 2.5e-310],
    "texts": ["", "a", "ümläut", "漢字", "🦆", 'quote " backslash \\ slash / tab \t', "x" * 300],
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "shared": [[frame, frame], [frame]],
    "empty": [[], {}],
    "numbers": {1: 2, 3: {"four": 5}},
}
large = {
    "list": list(range(2500)),
    "dict": {f"key {i}": [i, -i] for i in range(1200)},
    "text": "0123456789" * 7000,
    "events": [{"action": "alloc", "addr": 140 * 10**12 + 512 * i, "frames": [frame]} for i in range(1500)],
}


def python_pickle(value, protocol):
    out = io.BytesIO()
    pickle._Pickler(out, protocol).dump(value)
    return out.getvalue()


for protocol in range(2, 6):
    (HERE / f"small_{protocol}.pickle").write_bytes(pickle.dumps(small, protocol))
    (HERE / f"small_{protocol}_python.pickle").write_bytes(python_pickle(small, protocol))
    (HERE / f"large_{protocol}.pickle.gz").write_bytes(gzip.compress(pickle.dumps(large, protocol), mtime=0))
del small["numbers"]  # the last one, whose keys JSON does not have
(HERE / "small.json").write_text(json.dumps(small, indent=1))
(HERE / "small_plain.json").write_text(json.dumps(small, ensure_ascii=False, separators=(",", ":")))
(HERE / "large.json.gz").write_bytes(gzip.compress(json.dumps(large).encode(), mtime=0))
