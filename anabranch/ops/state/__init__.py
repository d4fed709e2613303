"""Variables, updates of their rows, and the steps of optimizers."""
