"""Data and sizes that all peers share."""

import itertools

import numpy as np

LAYERS = [(3, 64, 1), (64, 64, 1), (64, 128, 1), (128, 128, 1), (128, 256, 1), (256, 256, 1)]
"""Channels in, channels out and stride of the six convolutions; a 2x2 pool after each second one."""
POOLED = (1, 3, 5)
WIDE_MLP, WIDE_CONV = (1024, 4096), (256,)
"""Batch and width of `mlp_wide`, batch of `conv6_wide`: what fills a GPU."""
rng = np.random.RandomState(0)


def mlp(batch=128, width=512):
    """Images, labels and weights of the MLP."""
    sizes = [784, width, width, 10]
    weights = [(rng.randn(a, b) * (2 / a) ** 0.5).astype(np.float32) for a, b in itertools.pairwise(sizes)]
    return rng.rand(batch, 784).astype(np.float32), rng.randint(0, 10, batch).astype(np.int64), weights


def conv6(batch=32):
    """Images, labels and weights of the six-layer network; the last is the dense head."""
    weights = [(rng.randn(3, 3, a, b) * (2 / (9 * a)) ** 0.5).astype(np.float32) for a, b, _ in LAYERS]
    weights.append((rng.randn(4 * 4 * 256, 10) * 0.01).astype(np.float32))
    return rng.rand(batch, 32, 32, 3).astype(np.float32), rng.randint(0, 10, batch).astype(np.int64), weights


def digits():
    """Images, labels and weights of the demo's network."""
    weights = [
        (rng.randn(*shape) * 0.1).astype(np.float32) for shape in ((3, 3, 1, 32), (3, 3, 32, 64), (256, 128), (128, 10))
    ]
    return rng.rand(64, 8, 8, 1).astype(np.float32), rng.randint(0, 10, 64).astype(np.int64), weights


def small():
    """One row, and ten 16x4 weights."""
    return rng.rand(1, 16).astype(np.float32), [rng.rand(16, 4).astype(np.float32) for _ in range(10)]


ROWS, WIDTH, BATCH = 1_000_000, 64, 256

TRIPS, ROW = 10_000, 64


def recurrence():
    """A state, a weight matrix, and how often the one is multiplied by the other."""
    return rng.rand(16, 64).astype(np.float32), (rng.randn(64, 64) * 0.1).astype(np.float32), 1000


def rows():
    """A thousand rows."""
    return rng.rand(1000, ROW).astype(np.float32)


WORDS, HIDDEN, SEQUENCES, STEPS, LM_RATE = 10_000, 256, 20, 20, 0.5
"""Vocabulary, width, batch, steps and learning rate of the language model."""


def language_model():
    """Words, the words that follow them, and weights: embedding, LSTM kernel and bias (gates i, j, f, o), softmax."""
    words, following = (rng.randint(0, WORDS, (SEQUENCES, STEPS)).astype(np.int32) for _ in range(2))
    shapes = ((WORDS, HIDDEN), (2 * HIDDEN, 4 * HIDDEN), (4 * HIDDEN,), (HIDDEN, WORDS), (WORDS,))
    scales = (0.05, 0.05, 0.0, 0.05, 0.0)
    weights = [(rng.randn(*shape) * scale).astype(np.float32) for shape, scale in zip(shapes, scales, strict=True)]
    return words, following, weights
