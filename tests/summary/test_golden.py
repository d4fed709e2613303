"""Summaries hold what TensorFlow's hold, to the last bit, and their functions make the nodes that it makes."""

from __future__ import annotations

import importlib.util
import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf
from anabranch.ops.summary.encoders import encode_png

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "summaries.json").read_text())
_spec = importlib.util.spec_from_file_location(
    "golden_summaries", ROOT / "tools" / "golden" / "training" / "summaries.py"
)
recorder = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorder)


def decoded(data):
    """The pixels of a PNG of 8 bits a channel, `[height, width, channels]`, as the standard says how to read them."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    position, parts = 8, []
    while position < len(data):
        size, kind = struct.unpack_from(">I4s", data, position)
        body = data[position + 8 : position + 8 + size]
        assert struct.unpack_from(">I", data, position + 8 + size)[0] == zlib.crc32(kind + body)
        parts.append((kind, body))
        position += 12 + size
    assert [kind for kind, _ in parts] == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, colours, *rest = struct.unpack(">IIBBBBB", parts[0][1])
    assert (depth, rest) == (8, [0, 0, 0])
    channels = {0: 1, 4: 2, 2: 3, 6: 4}[colours]
    rows = np.frombuffer(zlib.decompress(parts[1][1]), np.uint8).reshape(height, 1 + width * channels)
    above = np.zeros(width * channels, np.uint8)
    found = []
    for row in rows:
        assert row[0] == 2
        above = above + row[1:]
        found.append(above)
    return np.array(found).reshape(height, width, channels)


def run_case(name):
    found = recorder.run_case(
        tf,
        np,
        recorder.CASES[name],
        lambda data: decoded(data).ravel().tolist(),
        lambda op, **given: tf.build_op(op, **given),
    )
    return json.loads(json.dumps(found))


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_values_and_nodes(name):
    found, wanted = run_case(name), GOLDEN[name]
    assert found["out"] == wanted["out"]
    assert found["nodes"] == wanted["nodes"]


def test_every_op_is_in_a_case():
    ops = {"ScalarSummary", "HistogramSummary", "ImageSummary", "AudioSummaryV2", "TensorSummary", "TensorSummaryV2",
           "MergeSummary"}  # fmt: skip
    assert ops <= {kind for case in GOLDEN.values() for _, kind, _ in case["nodes"]}


def test_every_case_is_recorded():
    assert sorted(recorder.CASES) == sorted(GOLDEN)


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 5, 2), (3, 300, 3), (64, 64, 4)])
def test_png_round_trip(shape):
    image = np.random.RandomState(0).randint(0, 256, shape).astype(np.uint8)
    np.testing.assert_array_equal(decoded(encode_png(image)), image)
