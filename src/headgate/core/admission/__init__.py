"""Who gets seats: pools and their settings, the rule of one pool, and who is next in line."""
