"""What several families of ops stand on: numerics, gradients of broadcasting, Python's operators."""
