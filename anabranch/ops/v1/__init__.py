"""Control flow, stacks and tensor arrays as TensorFlow 1 wrote them."""
