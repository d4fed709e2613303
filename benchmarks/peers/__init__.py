"""The same computations in each system."""
