"""Checkpoints of programs: savers, and checkpoints by object."""
