"""Agents: which kind a command line starts, how to resume it, and the watch over its output."""
