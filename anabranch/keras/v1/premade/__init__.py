"""Models whose form is given: linear ones, and a linear one beside a deep one."""
