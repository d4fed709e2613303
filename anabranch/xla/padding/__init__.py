"""One program for all sizes of a batch up to a capacity."""
