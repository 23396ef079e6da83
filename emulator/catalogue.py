"""The models the emulator answers for, and what each of them accepts.

Limits and refusals are those of the public model table (November 2026); where the table gives only a range
(smallest cacheable prompt: 512 to 4 096 tokens) a value inside it was chosen.
"""

from dataclasses import dataclass
from typing import Any

from emulator.errors import ApiError

STAND_IN = "stand-in model, no AI"


@dataclass(frozen=True)
class ModelCard:
    """One model: sizes in tokens, and the request features it accepts."""

    id: str
    name: str
    line: str
    released: str
    context_tokens: int = 1_000_000
    max_output_tokens: int = 128_000
    smallest_cache_tokens: int = 1_024
    forced_tool_choice: bool = True
    thinking_can_be_off: bool = True
    preserved_thinking: bool = False
    prefill: bool = False
    adaptive_thinking: bool = True
    lifecycle: str = "active"
    retires: str | None = None
    aliases: tuple[str, ...] = ()


_CARDS = (
    ModelCard(
        "claude-fable-5-2",
        "Claude Fable 5.2",
        "fable",
        "2026-10-21",
        smallest_cache_tokens=512,
        forced_tool_choice=False,
        thinking_can_be_off=False,
        preserved_thinking=True,
    ),
    ModelCard(
        "claude-fable-5-1",
        "Claude Fable 5.1",
        "fable",
        "2026-08-12",
        smallest_cache_tokens=512,
        forced_tool_choice=False,
        thinking_can_be_off=False,
        preserved_thinking=True,
    ),
    ModelCard(
        "claude-opus-5-5",
        "Claude Opus 5.5",
        "opus",
        "2026-10-01",
        smallest_cache_tokens=512,
        forced_tool_choice=False,
        thinking_can_be_off=False,
        preserved_thinking=True,
    ),
    ModelCard("claude-opus-5", "Claude Opus 5", "opus", "2026-05-20"),
    ModelCard(
        "claude-sonnet-5-5",
        "Claude Sonnet 5.5",
        "sonnet",
        "2026-10-01",
        forced_tool_choice=False,
        preserved_thinking=True,
    ),
    ModelCard("claude-sonnet-5", "Claude Sonnet 5", "sonnet", "2026-05-20"),
    ModelCard(
        "claude-haiku-5-5",
        "Claude Haiku 5.5",
        "haiku",
        "2026-10-15",
        smallest_cache_tokens=2_048,
        preserved_thinking=True,
    ),
    ModelCard(
        "claude-haiku-4-5",
        "Claude Haiku 4.5",
        "haiku",
        "2025-10-15",
        context_tokens=200_000,
        max_output_tokens=64_000,
        smallest_cache_tokens=4_096,
        prefill=True,
        adaptive_thinking=False,
        aliases=("claude-haiku-4-5-20251001",),
    ),
    ModelCard(
        "claude-opus-4-5",
        "Claude Opus 4.5",
        "opus",
        "2025-11-24",
        context_tokens=200_000,
        max_output_tokens=64_000,
        smallest_cache_tokens=4_096,
        prefill=True,
        adaptive_thinking=False,
        lifecycle="deprecated",
        retires="2027-01-22",
        aliases=("claude-opus-4-5-20251101",),
    ),
    ModelCard(
        "claude-sonnet-4-5",
        "Claude Sonnet 4.5",
        "sonnet",
        "2025-09-29",
        context_tokens=200_000,
        max_output_tokens=64_000,
        prefill=True,
        adaptive_thinking=False,
        lifecycle="deprecated",
        retires="2026-11-30",
        aliases=("claude-sonnet-4-5-20250929",),
    ),
)


def all_models() -> tuple[ModelCard, ...]:
    """Every model, newest first, as the list endpoint gives them."""
    return tuple(sorted(_CARDS, key=lambda card: card.released, reverse=True))


def find_model(model_id: str) -> ModelCard:
    """The model with this id or alias.

    Raises:
        ApiError: 404 `not_found_error` with the API's message when there is none.
    """
    for card in _CARDS:
        if model_id == card.id or model_id in card.aliases:
            return card
    raise ApiError(404, "not_found_error", f"model: {model_id}")


def describe(card: ModelCard) -> dict[str, Any]:
    """The body of `GET /v1/models/{id}`; the display name says that nothing intelligent answers."""
    yes, no = {"supported": True}, {"supported": False}
    levels = dict.fromkeys(("low", "medium", "high", "max", "xhigh"), yes)
    return {
        "type": "model",
        "id": card.id,
        "display_name": f"{card.name} ({STAND_IN})",
        "created_at": f"{card.released}T00:00:00Z",
        "line": card.line,
        "lifecycle": card.lifecycle,
        "deprecated_at": None if card.lifecycle == "active" else "2026-09-01T00:00:00Z",
        "retires_at": f"{card.retires}T00:00:00Z" if card.retires else None,
        "max_input_tokens": card.context_tokens,
        "max_tokens": card.max_output_tokens,
        "capabilities": {
            "batch": no,
            "citations": no,
            "code_execution": no,
            "context_management": {"supported": False},
            "effort": {"supported": card.adaptive_thinking, **levels},
            "image_input": yes,
            "pdf_input": yes,
            "server_tools": {"supported": False, "code_execution": no, "web_search": no},
            "structured_outputs": no,
            "thinking": {
                "supported": True,
                "types": {
                    "adaptive": {"supported": card.adaptive_thinking},
                    "between_tools": no,
                    "disabled": {"supported": card.thinking_can_be_off},
                    "enabled": {"supported": not card.preserved_thinking},
                },
            },
        },
    }
