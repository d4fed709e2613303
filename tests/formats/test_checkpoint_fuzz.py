"""Checkpoints by strangers: whatever stands in a file, with checksums that hold, is read or refused, never more."""

from __future__ import annotations

import importlib.util
import os
import random
import resource
import shutil
import time
from pathlib import Path

import pytest

from anabranch.core import errors
from anabranch.formats import bundle, checkpoints, sstable

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "checkpoints"
_spec = importlib.util.spec_from_file_location(
    "golden_checkpoints", ROOT / "tools" / "golden" / "graphs" / "checkpoints.py"
)
recorder = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorder)
# What a reader may say of a file that it cannot read.
TOLD = (errors.DataLossError, errors.NotFoundError, errors.InvalidArgumentError, errors.UnimplementedError)
INDEXES = {"v2": "v2.index", "v2_grid": "v2_grid.index", "v2_sharded": "v2_sharded.index", "v1": "v1"}


def entries(name):
    data = (GOLDEN / name).read_bytes()
    return list(sstable.Table(lambda offset, size: data[offset : offset + size], len(data), name).items())


def mutated(rng, data):
    """A string with some bytes changed, taken out, doubled or put in."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(found) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            found[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            found[at : at + 1] = bytes([rng.choice((0, 1, 127, 128, 255))])
        elif kind == 2:
            del found[at : at + rng.choice((1, 1, 4))]
        elif kind == 3:
            found[at:at] = found[at : at + 3]
        else:
            found[at:at] = bytes([rng.choice((128, 255))] * rng.choice((1, 9)) + [rng.randrange(128)])
    return bytes(found)


def read_all(prefix):
    """Reads everything; whether nothing was refused."""
    whole = True
    try:
        with checkpoints.open_checkpoint(prefix) as reader:
            for name in list(reader.tensors):
                try:
                    reader.read(name)
                    reader.read(name, tuple((0, 1) for _ in reader.facts(name).shape))
                except TOLD:
                    whole = False
    except TOLD:
        return False
    return whole


def fuzz(folder, seed, rounds):
    rng = random.Random(seed)
    kept = {name: entries(file) for name, file in INDEXES.items()}
    refused = 0
    for _ in range(rounds):
        name = rng.choice(list(INDEXES))
        items = dict(kept[name])
        for _ in range(rng.choice((1, 1, 3))):
            key = rng.choice(list(items))
            value = items.pop(key)
            items[mutated(rng, key) if rng.random() < 0.2 else key] = mutated(rng, value)
        data = bytearray()
        sstable.write_table(sorted(items.items()), data.extend)
        if rng.random() < 0.1:
            data = bytearray(mutated(rng, bytes(data)))
        (folder / INDEXES[name]).write_bytes(bytes(data))
        refused += not read_all(str(folder / name))
    return refused


@pytest.fixture
def folder(tmp_path):
    for path in GOLDEN.iterdir():
        shutil.copy(path, tmp_path)
    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 30), before[1]))  # a huge allocation is a MemoryError
    yield tmp_path
    resource.setrlimit(resource.RLIMIT_AS, before)


def test_the_files_themselves_are_read(folder):
    assert all(read_all(str(folder / name)) for name in ("v2_grid", "v2_sharded"))
    assert read_all(str(folder / "v1")) is False  # no slice of length 1 lies in an empty tensor


@pytest.mark.parametrize("seed", range(4))
def test_changed_entries(folder, seed):
    assert fuzz(folder, seed, 150) > 50


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_changed_entries_for_a_minute(folder):
    seed, until = int(time.time()), time.monotonic() + 60
    while time.monotonic() < until:
        print("seed", seed)
        fuzz(folder, seed, 200)
        seed += 1


@pytest.mark.parametrize("seed", range(300))
def test_changed_compressed_blocks(seed):
    rng = random.Random(seed)
    data = bytes([112]) + bytes([2 << 2]) + b"abc" + bytes([(5 << 2) | 1, 3]) + bytes([(39 << 2) | 2, 3, 0])
    data += bytes([60 << 2, 59]) + b"x" * 60
    try:
        assert len(sstable.unsnapped(mutated(rng, data), "t")) <= 64 * (len(data) + 100)
    except errors.DataLossError as problem:
        assert problem.message.startswith("t: ")  # noqa: PT017  (both ends are good)


def test_an_index_of_another_version(tmp_path):
    header = bundle.tensor_bundle_pb2.BundleHeaderProto(num_shards=1)
    header.version.min_consumer = 9
    with open(tmp_path / "m.index", "wb") as stream:
        sstable.write_table([(b"", header.SerializeToString())], stream.write)
    with pytest.raises(errors.UnimplementedError, match="for readers of version 9"):
        checkpoints.open_checkpoint(str(tmp_path / "m"))
