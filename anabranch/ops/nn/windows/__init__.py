"""Ops that slide a window over an image or a volume: convolutions, poolings, dilations."""
