"""What loops of programs need besides their bodies: bounds, limits, and sums that wait until a loop has ended."""
