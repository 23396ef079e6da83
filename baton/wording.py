"""Numbers in sentences for people."""


def number(value: int) -> str:
    """`12 345`."""
    return f"{value:,}".replace(",", " ")


def size(count_bytes: int) -> str:
    """`532 bytes`, `4.2 MB`: in the unit that gives a short number."""
    value, unit = float(count_bytes), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}" if unit != "bytes" else counted(count_bytes, "byte")


def counted(value: int, word: str) -> str:
    """`1 agent`, `2 agents`."""
    return f"{number(value)} {word}" if value == 1 else f"{number(value)} {word}s"
