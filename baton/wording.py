"""Numbers in sentences for people."""


def number(value: int) -> str:
    """`12 345`."""
    return f"{value:,}".replace(",", " ")


def counted(value: int, word: str) -> str:
    """`1 agent`, `2 agents`."""
    return f"{number(value)} {word}" if value == 1 else f"{number(value)} {word}s"
