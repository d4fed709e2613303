"""Steps of which everything that does not change from run to run is decided once; begin at ``fast_step.py``."""
