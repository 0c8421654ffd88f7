"""What upstream said, applied to pools: signals, its own count, what rates were charged."""
