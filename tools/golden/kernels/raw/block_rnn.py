"""Cases of LSTM and GRU steps as one op."""

import numpy as np
from raw_ops import case

RANDOM = np.random.RandomState(5)
X = RANDOM.randn(4, 2, 3).astype(np.float32)
STATE = RANDOM.randn(2, 2, 5).astype(np.float32)
WEIGHTS = RANDOM.randn(8, 20).astype(np.float32)
PEEPHOLES = RANDOM.randn(3, 5).astype(np.float32)
BIAS = RANDOM.randn(20).astype(np.float32)
LSTM = (*STATE, WEIGHTS, *PEEPHOLES, BIAS)

CASES = {
    "step": case("LSTMBlockCell", X[0], *LSTM),
    "step with all": case("LSTMBlockCell", X[0], *LSTM, forget_bias=0.5, cell_clip=0.7, use_peephole=True),
    "step, not clipped": case("LSTMBlockCell", X[0], *LSTM, cell_clip=-1.0),
    "loop": case("BlockLSTM", np.int64(4), X, *LSTM),
    "loop with all": case("BlockLSTM", np.int64(4), X, *LSTM, forget_bias=0.2, cell_clip=0.4, use_peephole=True),
    "loop, second version": case("BlockLSTMV2", np.int64(4), X, *LSTM),
    "loop, second version with all": case("BlockLSTMV2", np.int64(4), X, *LSTM, cell_clip=0.4, use_peephole=True),
    "gated": case("GRUBlockCell", X[0], STATE[0], WEIGHTS[:, :10], WEIGHTS[:, 10:15], BIAS[:10], BIAS[10:15]),
}
