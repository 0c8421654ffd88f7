"""An open transaction: rows, the pools as they stand, the seats in use, and a clock reading."""
