"""Tools for testing ops and gradients, ours and users'."""
