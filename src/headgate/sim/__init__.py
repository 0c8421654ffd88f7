"""A provider that can be overrun: in virtual time for judging a law, over HTTP for trying a client.

The provider is one model (`upstream`) with two drivers: `virtual_time` runs thousands of hours in
minutes against the real ledger, `server` is a real HTTP server. Scenarios are TOML.
"""
