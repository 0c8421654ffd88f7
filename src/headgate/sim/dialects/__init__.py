"""How each API puts the same things on the wire: an answer, a stream, a refusal, what is left."""
