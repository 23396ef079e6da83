"""The terminal: commands, progress and the local service."""
