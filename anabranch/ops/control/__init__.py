"""Control flow: conditionals, loops, calls, and Python functions as operations."""
