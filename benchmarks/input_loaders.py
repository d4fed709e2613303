"""Rows of `benchmarks/input.py` as programs of PyTorch's DataLoader and of Grain write them.

    python benchmarks/input_loaders.py torch|grain [--workers 0] [--folder FOLDER] [--only ROW,ROW]

Prints a JSON object: microseconds of CPU time per element of each row, of this process and of its workers, the least of
three passes. `images` needs Pillow, and is left out where it is not there. Two rows do less than those they stand
beside: `lines` and `words` take lines that are in memory before the clock starts, and `words` hashes by CRC-32 and pads
batches as they come, not in buckets by length.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import struct
import time
import zlib

import numpy as np

NUMBERS, IMAGES, PIXELS, WORDS, SMALL, BATCH, CALLS, PICTURES, LINES = (
    50_000,
    50_000,
    784,
    10_000,
    128,
    256,
    5_000,
    96,
    200_000,
)
NAMES = "mapped", "shuffled", "python", "generated", "lines", "words", "images"


def cpu() -> float:
    """Seconds of CPU time of this process, and of children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def records(path):
    """The records of a TFRecord file."""
    with open(path, "rb") as file:
        while head := file.read(12):
            yield file.read(struct.unpack("<Q", head[:8])[0])
            file.read(4)


def scaled(x):
    """What a function of a program computes for an element."""
    return np.float32(x * 2 + 1)


def split(line):
    """The words of a line as numbers of a vocabulary of 1,000."""
    return np.array([zlib.crc32(word) % 1000 for word in line.split()], np.int64)


def picture(packed):
    """A JPEG as a training image: cropped at random, flipped, resized to 224, normalised."""
    from PIL import Image

    pixels = Image.open(io.BytesIO(packed)).convert("RGB")
    left, top = np.random.randint(0, 101), np.random.randint(0, 76)
    pixels = pixels.crop((left, top, left + 400, top + 300)).resize((224, 224), Image.BILINEAR)
    if np.random.rand() < 0.5:
        pixels = pixels.transpose(Image.FLIP_LEFT_RIGHT)
    return np.asarray(pixels, np.float32) / 127.5 - 1.0


def padded(rows):
    """Rows of different lengths in one array, filled up with zeros."""
    batch = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for i, row in enumerate(rows):
        batch[i, : len(row)] = row
    return batch


class Rows:
    """A source with random access, of the function's values for the items of a sequence."""

    def __init__(self, items, function=None):
        self.items, self.function = items, function

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        item = self.items[i]
        return item if self.function is None else self.function(item)


def sources(folder, only):
    """Of each row its items in memory, the function that is called for each, the batch size and whether to shuffle."""
    rows = {}

    def wanted(name):
        return not only or name in only

    if wanted("mapped"):
        rows["mapped"] = np.arange(NUMBERS, dtype=np.float32), lambda x: x * 2 + 1, SMALL, False
    if wanted("shuffled"):
        rows["shuffled"] = np.random.default_rng(0).random((IMAGES, PIXELS), np.float32), None, SMALL, True
    if wanted("python"):
        rows["python"] = np.arange(CALLS), scaled, SMALL, False
    if wanted("generated"):
        rows["generated"] = np.arange(CALLS), lambda i: np.full(16, i, np.float32), SMALL, False
    path = os.path.join(folder, "lines")
    if os.path.exists(path):
        with open(path, "rb") as file:
            lines = file.read().splitlines()
        if wanted("lines"):
            rows["lines"] = lines[:LINES], None, BATCH, False
        if wanted("words"):
            rows["words"] = lines[:WORDS], split, 64, False
    path = os.path.join(folder, "images")
    if os.path.exists(path) and wanted("images"):
        try:
            import PIL.Image  # noqa: F401

            rows["images"] = list(records(path)), picture, 32, False
        except ImportError:
            pass
    return rows


def torch_batches(items, function, size, shuffle, workers, pad):
    """Batches of PyTorch's DataLoader."""
    import torch

    collate = None
    if pad:
        collate = padded
    elif isinstance(items, list) and isinstance(items[0], bytes) and function is None:
        collate = list
    data = Rows(torch.from_numpy(items) if isinstance(items, np.ndarray) else items, function)
    if isinstance(items, np.ndarray) and function is not None:
        data = Rows(items, function)
    return torch.utils.data.DataLoader(data, size, shuffle, num_workers=workers, collate_fn=collate)


def grain_batches(items, function, size, shuffle, workers, pad):
    """Batches of a Grain dataset."""
    import grain

    dataset = grain.MapDataset.source(Rows(items))
    if shuffle:
        dataset = dataset.shuffle(seed=1)
    if function is not None:
        dataset = dataset.map(function)
    dataset = dataset.batch(size, batch_fn=padded if pad else None)
    if not workers:
        return dataset.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    return dataset.to_iter_dataset().mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))


def main():
    """Measure one library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=["torch", "grain"])
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--folder", default=".")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    batches = torch_batches if options.library == "torch" else grain_batches
    only = [name for name in options.only.split(",") if name]
    results = {}
    for name, (items, function, size, shuffle) in sources(options.folder, only).items():
        spent = []
        for _ in range(3):
            start = cpu()
            for _batch in batches(items, function, size, shuffle, options.workers, name == "words"):
                pass
            del _batch
            spent.append(cpu() - start)
        results[name] = min(spent) / len(items) * 1e6
    print(json.dumps(results))


if __name__ == "__main__":
    main()
