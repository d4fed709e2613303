"""Plans: what a step runs, in which tier, bound to which resources."""
