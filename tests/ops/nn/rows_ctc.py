"""Rows of connectionist temporal classification: losses by enumeration of all paths; decoders against all sequences."""

from __future__ import annotations

import itertools

import numpy as np

from anabranch.testing.op_cases import case, real, row


def log_softmax(x):
    top = x.max(-1, keepdims=True)
    return x - top - np.log(np.exp(x - top).sum(-1, keepdims=True))


def spoken(path, blank, merge=True):
    """The labels that a path of classes stands for."""
    return tuple(c for i, c in enumerate(path) if c != blank and not (merge and i and path[i - 1] == c))


def sequences(log_y, blank):
    """Log-probability of every label sequence, by enumeration of the paths."""
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(log_y.shape[1]), repeat=len(log_y)):
        labels = spoken(path, blank)
        score = sum(log_y[t, c] for t, c in enumerate(path))
        found[labels] = np.logaddexp(found.get(labels, -np.inf), score)
    return found


def loss(blank_of):
    """The loss, and its gradient: what the softmax gives each class less what the paths of the labels give it."""

    def reference(logits, indices, values, lengths, preprocess_collapse_repeated=False, ctc_merge_repeated=True,
                  ignore_longer_outputs_than_inputs=False):  # fmt: skip
        _, batch, classes = logits.shape
        blank = blank_of(classes)
        log_y = log_softmax(logits)
        losses, gradient = np.zeros(batch), np.zeros_like(logits)
        for b in range(batch):
            labels = tuple(int(v) for (row, _), v in zip(indices, values, strict=True) if row == b)
            if preprocess_collapse_repeated:
                labels = tuple(k for k, _ in itertools.groupby(labels))
            if ignore_longer_outputs_than_inputs and len(labels) > lengths[b]:
                continue
            total, share = -np.inf, np.zeros((lengths[b], classes))
            for path in itertools.product(range(classes), repeat=int(lengths[b])):
                if spoken(path, blank, ctc_merge_repeated) == labels:
                    score = sum(log_y[t, b, c] for t, c in enumerate(path))
                    total = np.logaddexp(total, score)
                    share[np.arange(len(path)), list(path)] += np.exp(score)
            losses[b] = -total
            with np.errstate(divide="ignore", invalid="ignore"):
                gradient[: lengths[b], b] = np.exp(log_y[: lengths[b], b]) - (
                    share / np.exp(total) if total > -np.inf else 0
                )
        return losses, gradient

    return reference


INDICES = [[0, 0], [0, 1], [0, 2], [1, 0], [2, 0], [2, 1]]


def losses(*values):
    return [
        case(real(5, 3, 3), INDICES, list(values), [5, 3, 4]),
        case(real(4, 3, 3), INDICES, list(values), [4, 3, 4], preprocess_collapse_repeated=True),
        case(real(4, 3, 3), INDICES, list(values), [4, 3, 4], ctc_merge_repeated=False, grad=False),
        case(real(3, 3, 3), INDICES, list(values), [2, 3, 2], ignore_longer_outputs_than_inputs=True, grad=False),
    ]


def check_greedy(outputs, inputs, attrs):
    indices, values, shape, score = outputs
    logits, lengths = inputs
    blank = attrs["blank_index"] % logits.shape[2]
    best = [logits[:n, b].argmax(-1).tolist() for b, n in enumerate(lengths)]
    wanted = [spoken(path, blank, attrs["merge_repeated"]) for path in best]
    assert shape.tolist() == [len(wanted), max((len(path) for path in wanted), default=0)]
    assert indices.tolist() == [[b, i] for b, path in enumerate(wanted) for i in range(len(path))]
    assert values.tolist() == [label for path in wanted for label in path]
    totals = [-logits[:n, b].astype(np.float64).max(-1).sum() for b, n in enumerate(lengths)]
    np.testing.assert_allclose(score[:, 0], totals, 1e-5)


def check_beam(outputs, inputs, attrs):
    paths = attrs["top_paths"]
    logits, lengths = inputs
    log_y = log_softmax(logits.astype(np.float64))
    for b, n in enumerate(lengths):
        scores = sequences(log_y[:n, b], logits.shape[2] - 1)
        ordered = sorted(scores, key=scores.__getitem__, reverse=True)[:paths]
        for i, wanted in enumerate(ordered):
            indices, values, shape = (outputs[i + k * paths] for k in range(3))
            found = tuple(values[indices[:, 0] == b].tolist())
            if attrs["merge_repeated"]:
                wanted = tuple(k for k, _ in itertools.groupby(wanted))
            assert found == wanted, f"{found} instead of {wanted}"
            assert shape[0] == len(lengths)
        np.testing.assert_allclose(outputs[-1][b], [scores[wanted] for wanted in ordered], 1e-5)


ROWS = [
    row("CTCLoss", loss(lambda classes: classes - 1), losses(0, 1, 1, 1, 0, 0), outputs=[0], wrt="inputs", order=1,
        tolerance=4),
    row("CTCLossV2", loss(lambda classes: 0), losses(1, 2, 2, 2, 1, 1), order=0, tolerance=4),
    row("CTCGreedyDecoder", None,
        [case(real(6, 3, 4), [6, 3, 0]), case(real(6, 2, 4), [6, 6], merge_repeated=True),
         case(real(6, 2, 4), [6, 6], blank_index=0)],
        check=check_greedy, open_shape="how long the sequences are depends on the values"),
    row("CTCBeamSearchDecoder", None,
        [case(real(5, 2, 3), [5, 4], beam_width=60, top_paths=3, merge_repeated=False),
         case(real(5, 2, 4), [5, 2], beam_width=400, top_paths=2)],
        check=check_beam, open_shape="how long the sequences are depends on the values"),
]  # fmt: skip
