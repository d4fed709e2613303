"""Element-wise functions, reductions, running sums, segments, comparisons, quantisation, checks of values."""
