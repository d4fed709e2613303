"""Lists and arrays of tensors."""
