"""Programs to run from a shell."""
