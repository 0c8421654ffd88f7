"""Jobs: their states and what changes them, and the limits that they run under."""
