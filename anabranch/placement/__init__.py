"""Which device each operation of a step runs on."""
