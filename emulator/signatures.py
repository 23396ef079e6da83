"""Preserved thinking: what the emulator signs, and how a changed history is found without any server state.

A thinking block's signature holds its model and two codes, one over its own text and one over the exact prefix
(tools, system, all earlier messages). A tool call's id proves in the same way that a model of ours made the call.
The key is no secret: signatures must hold over restarts and between processes, and protect nothing but tests.
"""

import hashlib
import hmac

from emulator.canonical import Json, content_blocks
from emulator.catalogue import ModelCard
from emulator.errors import invalid
from emulator.prompt import Prompt

_KEY = b"emulator: not a secret, see the module docstring"


def sign_thinking(model: str, prompt: Prompt, thinking: str) -> str:
    """The signature of a thinking block that answers a prompt."""
    return f"{model}.{_code(model, thinking)}.{_code(prompt.end.digest)}"


def verify_thinking(number: int, message: Json, prompt: Prompt, model: str, card: ModelCard) -> None:
    """Check the replayed thinking blocks of a message; `prompt` is what stands before it, `model` who is asked.

    Blocks of another model are ignored, as the API does. Models without preserved thinking check only that the
    block itself is genuine.

    Raises:
        ApiError: 400 that names the block whose text or prefix was changed.
    """
    for index, block in enumerate(content_blocks(message["content"])):
        if block.get("type") != "thinking":
            continue
        where = f"messages.{number}.content.{index}"
        author, text_code, prompt_code = _split(block["signature"], where)
        if text_code != _code(author, block["thinking"]):
            raise invalid(f"{where}: Invalid `signature` in `thinking` block")
        if author != model or not card.preserved_thinking:
            continue
        if prompt_code != _code(prompt.end.digest):
            raise invalid(
                f"{where}: `thinking` blocks are bound to the conversation they were produced in; the "
                "tools, the system prompt or an earlier message differ from the original request"
            )


def mint_call_id(prompt: Prompt, index: int, name: str) -> str:
    """The id of the tool call at block `index` of the answer to a prompt; the same prompt gives the same."""
    nonce = _code(prompt.end.digest, str(index))[:14]
    return f"toolu_{nonce}{_code(nonce, name)[:10]}"


def is_minted(call_id: str, name: str) -> bool:
    """Whether a model of this emulator called the tool `name` under this id."""
    nonce, code = call_id[6:20], call_id[20:]
    return call_id.startswith("toolu_") and code == _code(nonce, name)[:10]


def _split(signature: str, where: str) -> tuple[str, str, str]:
    parts = signature.rsplit(".", 2)
    if len(parts) != 3:
        raise invalid(f"{where}: Invalid `signature` in `thinking` block")
    return parts[0], parts[1], parts[2]


def _code(*parts: str) -> str:
    digest = hmac.new(_KEY, digestmod=hashlib.sha256)
    for part in parts:
        data = part.encode("utf-8", "replace")
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()[:40]
