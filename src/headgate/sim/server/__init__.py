"""The provider as a real HTTP server, to point agents, SDKs and tests at."""
