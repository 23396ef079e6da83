"""The bounds of everything that may happen again by itself (invariant 7): no step brings forth steps without end.

What a person asks for is counted here too, where it leads to more work of the same kind.
"""

PLANS = 5
"""Plans of one task, one after the other, whoever wanted them."""

AUTOMATIC_REPLANS = 2
"""Of these, plans for what a failed step left that nobody asked for."""

REVIEW_RETRIES = 2
"""How often a review may send the same work back by itself; then a person decides."""

CHAIN_AGENTS = 100
"""Agents of one chain, one after the other, whatever `maxAgents` says."""
