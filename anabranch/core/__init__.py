"""The graph and the contract of its operations: no device, no compiler, NumPy and protobuf only."""
