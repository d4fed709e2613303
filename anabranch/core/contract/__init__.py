"""The op contract: what a block says, how kernels and shape rules are called, how names are published."""
