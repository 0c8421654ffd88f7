"""Values that a store keeps as text: how they are written, and what counts if one is unreadable."""
