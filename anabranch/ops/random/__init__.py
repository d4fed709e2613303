"""Random numbers from Philox streams."""
