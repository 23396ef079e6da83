"""What work is likely to cost: what is left of a running task, from what it cost so far."""

from decimal import Decimal

from baton.ledger import ItemCounts
from baton.pricing import Usage
from baton.wording import counted, number


def limit_question(reached: str, used: Usage, items: ItemCounts) -> str:
    """What a person needs to decide at a limit: what is done, what is left, what that would likely cost."""
    spent = f"{number(used.output_tokens)} output tokens and {used.cost_usd:.2f} USD were used"
    if not items.total:
        return f"{_sentence(reached)}: {spent}."
    left = items.total - items.done
    done = f"{items.done} of {counted(items.total, 'item')} {'is' if items.done == 1 else 'are'} done"
    if not left:
        return f"{_sentence(reached)}: {spent}. {done}; what is left are checks and the integration."
    return f"{_sentence(reached)}: {spent}. {done}, {left} left{_likely(used, items.done, left)}."


def _likely(used: Usage, done: int, left: int) -> str:
    """What the rest costs if each item costs what an item cost so far."""
    if not done:
        return "; what they would cost cannot be told before one is done"
    cost, tokens = used.cost_usd * left / Decimal(done), used.output_tokens * left // done
    each = used.cost_usd / Decimal(done)
    return f": likely {cost:.2f} USD and {number(tokens)} output tokens more ({each:.3f} USD for each so far)"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
