"""Modules of TensorFlow's linear operators that libraries import: sums of operators, and what operators share."""
