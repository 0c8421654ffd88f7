"""Seats are asked for, the line is settled; and what settling it would do, as a dry run."""
