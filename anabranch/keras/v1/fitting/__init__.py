"""Training of models: batches, steps and callbacks."""
