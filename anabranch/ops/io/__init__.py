"""Files, checkpoints, printing."""
