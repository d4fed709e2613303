"""Cases of the ops of connectionist temporal classification."""

import numpy as np
from raw_ops import case

RANDOM = np.random.RandomState(4)


def logits(*shape, kind=np.float32, scale=2.0):
    """Logits of a spread that makes some paths much likelier than others."""
    return (scale * RANDOM.randn(*shape)).astype(kind)


def loss(inputs, labels, lengths, **attrs):
    """A loss of labels given as lists."""
    indices = [(i, j) for i, row in enumerate(labels) for j in range(len(row))]
    values = [value for row in labels for value in row]
    indices, values = np.array(indices, np.int64).reshape(-1, 2), np.array(values, np.int32)
    return case("CTCLoss", inputs, indices, values, np.array(lengths, np.int32), **attrs)


SOME = [[0, 1, 1, 2], [3], [2, 2]]


def beam(inputs, lengths, **attrs):
    """A beam search."""
    return case("CTCBeamSearchDecoder", inputs, np.array(lengths, np.int32), **attrs)


REPEATED = logits(9, 3, 5)
REPEATED[3:6, 0] = REPEATED[3, 0]

CASES = {
    "loss": loss(logits(8, 3, 5), SOME, [8, 5, 6]),
    "loss, float64": loss(logits(8, 3, 5, kind=np.float64), SOME, [8, 5, 6]),
    "loss, collapsed": loss(logits(8, 3, 5), SOME, [8, 5, 6], preprocess_collapse_repeated=True),
    "loss, not merged": loss(logits(8, 3, 5), SOME, [8, 5, 6], ctc_merge_repeated=False),
    "loss, neither": loss(
        logits(8, 3, 5), SOME, [8, 5, 6], preprocess_collapse_repeated=True, ctc_merge_repeated=False
    ),
    "loss, not merged, little time": loss(logits(2, 1, 5), [[1, 1]], [2], ctc_merge_repeated=False),
    "loss, just enough time": loss(logits(5, 3, 5), SOME, [5, 1, 3]),
    "loss, too long": loss(logits(5, 3, 5), SOME, [4, 1, 2], ignore_longer_outputs_than_inputs=True),
    "loss, one label each": loss(logits(5, 3, 5), [[0], [3], [1]], [5, 4, 1]),
    "loss, blanks at the end": loss(logits(5, 2, 5), [[0, 4], [1, 2]], [5, 4]),
    "loss, long": loss(logits(50, 2, 7), [list(RANDOM.randint(0, 6, 20)), [1] * 3], [50, 30], tolerance=1e-4),
    "loss, impossible": loss(np.array([[[0.0, -np.inf, 0.0]]], np.float32), [[1]], [1]),
    "greedy": case("CTCGreedyDecoder", REPEATED, np.array([9, 4, 0], np.int32)),
    "greedy, merged": case("CTCGreedyDecoder", REPEATED, np.array([9, 9, 1], np.int32), merge_repeated=True),
    "greedy, float64": case("CTCGreedyDecoder", REPEATED.astype(np.float64), np.array([9, 9, 1], np.int32)),
    "greedy, another blank": case(
        "CTCGreedyDecoder", REPEATED, np.array([9, 9, 1], np.int32), merge_repeated=True, blank_index=1
    ),
    "beam": beam(REPEATED, [9, 5, 1], beam_width=30, top_paths=3, merge_repeated=False),
    "beam, merged": beam(logits(12, 2, 4), [12, 7], beam_width=20, top_paths=4, merge_repeated=True),
    "beam, narrow": beam(logits(15, 4, 6), [15, 14, 13, 1], beam_width=4, top_paths=2, merge_repeated=False),
    "beam, of one": beam(logits(15, 4, 6), [15, 14, 13, 1], beam_width=1, top_paths=1, merge_repeated=False),
    "beam, float64": beam(logits(15, 2, 6, kind=np.float64), [15, 14], beam_width=8, top_paths=2, merge_repeated=False),
    "beam, flat": beam(logits(20, 3, 8, scale=0.3), [20, 18, 11], beam_width=25, top_paths=3, merge_repeated=False),
    "beam, long": beam(logits(60, 2, 28), [60, 55], beam_width=100, top_paths=2, merge_repeated=False),
}
