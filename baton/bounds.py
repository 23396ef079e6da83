"""The bounds of everything that may happen again by itself (invariant 7): no step brings forth steps without end.

What a person asks for is counted here too, where it leads to more work of the same kind.
"""

PLANS = 5
"""Plans of one task, one after the other, whoever wanted them."""

AUTOMATIC_REPLANS = 2
"""Of these, plans for what a failed step left that nobody asked for."""

REVIEW_RETRIES = 2
"""How often a review may send the same work back by itself; then a person decides."""

REPAIR_ROUNDS = 2
"""Rounds of steps that repair new failures."""

RESOLVER_ROUNDS = 2
"""Times that one merge of a step is given to a resolver before a person is asked: after the second conflict of the
same step somebody should look."""

RESOLUTIONS = 2
"""Resolvers in each: the work of the first may come back once."""

FRUITLESS_HANDOFFS = 2
"""Handoffs in a row without an item, a diff or a finding; a third agent is never started on the same."""

CHAIN_AGENTS = 100
"""Agents of one chain, one after the other, whatever `maxAgents` says."""
