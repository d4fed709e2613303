"""Arrays: sources, shapes, slices, joins, gathers, casts."""
