"""How a pool finds its limit: from acceptances and refusals, and from upstream's own count."""
