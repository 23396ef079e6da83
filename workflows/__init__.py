"""Deterministic order and waiting: the two workflows."""
