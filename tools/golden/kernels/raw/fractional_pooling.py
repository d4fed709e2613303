"""Cases of pooling by windows of random sizes, whose regions follow from seeds."""

import numpy as np
from raw_ops import case

RANDOM = np.random.RandomState(11)
X = RANDOM.randn(2, 17, 11, 2).astype(np.float32)
WHOLE = RANDOM.randint(-50, 50, (1, 9, 13, 2)).astype(np.int64)
RATIO = [1.0, 1.5, 1.44, 1.0]

CASES = {}
for _op in ("FractionalMaxPool", "FractionalAvgPool"):
    for _overlapping in (False, True):
        for _pseudo in (False, True):
            CASES[f"{_op} overlapping={_overlapping} pseudo_random={_pseudo}"] = case(
                _op,
                X,
                runs=2,
                pooling_ratio=RATIO,
                deterministic=True,
                seed=341261001,
                seed2=612361,
                overlapping=_overlapping,
                pseudo_random=_pseudo,
            )
    CASES[f"{_op} of integers"] = case(
        _op, WHOLE, pooling_ratio=[1.0, 1.3, 2.7, 1.0], deterministic=True, seed=-5, seed2=2**40, overlapping=True
    )
