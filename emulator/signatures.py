"""Preserved thinking: what the emulator signs, and how a changed history is found without any server state.

A thinking block's signature holds its model and two codes, one over its own text and one over the exact prefix
(tools, system, all earlier messages). A tool call's id proves in the same way that a model of ours made the call.
The key is no secret: signatures must hold over restarts and between processes, and protect nothing but tests.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from emulator.canonical import canonical_head, canonical_messages, content_blocks
from emulator.catalogue import ModelCard
from emulator.errors import invalid

_KEY = b"emulator: not a secret, see the module docstring"


def canonical_prompt(body: Mapping[str, Any]) -> list[str]:
    """All of a request that its answer is bound to."""
    return [*canonical_head(body), *canonical_messages(body["messages"])]


def sign_thinking(model: str, prompt: Sequence[str], thinking: str) -> str:
    """The signature of a thinking block that answers a canonical prompt."""
    return f"{model}.{_code([model, thinking])}.{_code(prompt)}"


def verify_thinking(body: Mapping[str, Any], card: ModelCard) -> None:
    """Check every replayed thinking block of a request.

    Blocks of another model are ignored, as the API does. Models without preserved thinking check only that the
    block itself is genuine.

    Raises:
        ApiError: 400 that names the block whose text or prefix was changed.
    """
    messages, head = body["messages"], None
    for number, message in enumerate(messages):
        for index, block in enumerate(content_blocks(message["content"])):
            if block.get("type") != "thinking":
                continue
            where = f"messages.{number}.content.{index}"
            model, text_code, prefix_code = _split(block["signature"], where)
            if text_code != _code([model, block["thinking"]]):
                raise invalid(f"{where}: Invalid `signature` in `thinking` block")
            if model != body["model"] or not card.preserved_thinking:
                continue
            head = canonical_head(body) if head is None else head
            if prefix_code != _code([*head, *canonical_messages(messages[:number])]):
                raise invalid(
                    f"{where}: `thinking` blocks are bound to the conversation they were produced in; the "
                    "tools, the system prompt or an earlier message differ from the original request"
                )


def mint_call_id(prompt: Sequence[str], index: int, name: str) -> str:
    """The id of the tool call at block `index` of the answer to a canonical prompt; the same prompt gives the same."""
    nonce = _code([*prompt, str(index)])[:14]
    return f"toolu_{nonce}{_code([nonce, name])[:10]}"


def is_minted(call_id: str, name: str) -> bool:
    """Whether a model of this emulator called the tool `name` under this id."""
    nonce, code = call_id[6:20], call_id[20:]
    return call_id.startswith("toolu_") and code == _code([nonce, name])[:10]


def _split(signature: str, where: str) -> tuple[str, str, str]:
    parts = signature.rsplit(".", 2)
    if len(parts) != 3:
        raise invalid(f"{where}: Invalid `signature` in `thinking` block")
    return parts[0], parts[1], parts[2]


def _code(parts: Iterable[str]) -> str:
    digest = hmac.new(_KEY, digestmod=hashlib.sha256)
    for part in parts:
        data = part.encode("utf-8", "replace")
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()[:40]
