"""Linear algebra: products, factorisations, solutions, diagonals, linear operators."""
