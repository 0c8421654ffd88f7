"""This machine: its memory and load, and agents on it that headgate did not start."""
