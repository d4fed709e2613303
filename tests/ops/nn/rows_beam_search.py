"""Row of the way back through a beam search."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, row


def beams(ids, parents, lengths, end):
    """Each beam, walked by hand from its last step."""
    out = np.full_like(ids, end)
    for b in range(ids.shape[1]):
        for w in range(ids.shape[2]):
            path, beam = [], w
            for t in range(min(int(lengths[b]), len(ids)) - 1, -1, -1):
                path.append(ids[t, b, beam])
                beam = parents[t, b, beam]
            for t, item in enumerate(reversed(path)):
                if item == end:
                    break
                out[t, b, w] = item
    return out


RANDOM = np.random.RandomState(0)
IDS, PARENTS = RANDOM.randint(0, 9, (6, 3, 4)), RANDOM.randint(0, 4, (6, 3, 4))
ROWS = [
    row(
        "GatherTree",
        beams,
        [
            case(IDS, PARENTS, [6, 3, 0], 8),
            case(IDS, PARENTS, [9, 1, -1], 10),
            case(IDS[:1], PARENTS[:1], [1, 1, 1], 0),
            case(np.zeros((0, 2, 3), np.int32), np.zeros((0, 2, 3), np.int32), [0, 1], 0),
            # What lies past the end of a beam is never gone through.
            case([[[1, 2]], [[3, 4]], [[5, 6]]], [[[0, 0]], [[1, 0]], [[-7, 7]]], [2], 9),
        ],
        "int32",
    )
]
