"""One machine: how many agents it can carry, and when nothing more is to start on it."""
