"""The same agent loop in other durable frameworks. Run by an interpreter that has them; imports nothing of Baton."""
