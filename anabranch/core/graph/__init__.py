"""Graphs: operations, tensors, nested bodies, scopes, collections, and the verifier. Start with `graph.py`."""
