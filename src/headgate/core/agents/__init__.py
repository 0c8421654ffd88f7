"""Agents: which kind a command line starts, how to resume it, its output, when it is ended."""
