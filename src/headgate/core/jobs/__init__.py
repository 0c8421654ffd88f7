"""Jobs: what one is, its states, and what changes them."""
