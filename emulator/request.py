"""The shape of a Messages API request: which fields exist, of which type, with the API's words for what is wrong.

What cannot be said of one field alone (pairing, order, what a model refuses) is checked in `strictness`.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from emulator.catalogue import ModelCard, find_model
from emulator.errors import invalid

JsonObject = dict[str, Any]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CacheControl(_Part):
    """A cache breakpoint: everything up to here may be cached for `ttl`."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] = "5m"


class _Cacheable(_Part):
    cache_control: CacheControl | None = None


class TextBlock(_Cacheable):
    type: Literal["text"]
    text: str
    citations: list[JsonObject] | None = None


class MediaBlock(_Cacheable):
    type: Literal["image", "document"]
    source: JsonObject
    title: str | None = None
    context: str | None = None
    citations: JsonObject | None = None


class ThinkingBlock(_Part):
    type: Literal["thinking"]
    thinking: str
    signature: str


class RedactedThinkingBlock(_Part):
    type: Literal["redacted_thinking"]
    data: str


class ToolUseBlock(_Cacheable):
    type: Literal["tool_use", "server_tool_use"]
    id: str = Field(pattern=r"^[a-zA-Z0-9_-]+$")
    name: str = Field(min_length=1, max_length=200)
    input: JsonObject
    caller: JsonObject | None = None
    toolset_name: str | None = None


class ToolResultBlock(_Cacheable):
    type: Literal["tool_result"]
    tool_use_id: str = Field(pattern=r"^[a-zA-Z0-9_-]+$")
    content: str | list[Annotated[TextBlock | MediaBlock, Field(discriminator="type")]] | None = None
    is_error: bool | None = None

    @property
    def text(self) -> str:
        """The content's text blocks, one under the other."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "\n".join(part.text for part in self.content if isinstance(part, TextBlock))


Block = Annotated[
    TextBlock | MediaBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock,
    Field(discriminator="type"),
]


class Message(_Part):
    role: Literal["user", "assistant"]
    content: str | list[Block]

    @cached_property
    def blocks(self) -> Sequence[Block]:
        """The content as blocks; a string is one text block."""
        if isinstance(self.content, str):
            return [TextBlock(type="text", text=self.content)]
        return self.content

    @cached_property
    def text(self) -> str:
        """The text blocks, one under the other."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    @cached_property
    def calls(self) -> Sequence[ToolUseBlock]:
        """The tool calls, those of the API's own tools too."""
        return [block for block in self.blocks if isinstance(block, ToolUseBlock)]

    @cached_property
    def results(self) -> Mapping[str, tuple[str, bool]]:
        """The text of each tool result and whether it is an error, by the id of the call."""
        results = (block for block in self.blocks if isinstance(block, ToolResultBlock))
        return {block.tool_use_id: (block.text, bool(block.is_error)) for block in results}


class Tool(_Cacheable):
    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,128}$")
    input_schema: JsonObject
    description: str | None = None
    type: Literal["custom"] | None = None
    strict: bool | None = None
    eager_input_streaming: bool | None = None
    input_examples: list[JsonObject] | None = None


class ToolChoice(_Part):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(_Part):
    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: int | None = Field(default=None, ge=1024)
    display: Literal["summarized", "omitted"] | None = None


class Metadata(_Part):
    user_id: str | None = Field(default=None, max_length=512)


class OutputConfig(_Part):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: JsonObject | None = None


class TokenRequest(_Part):
    """Body of `POST /v1/messages/count_tokens`."""

    model: str = Field(min_length=1)
    messages: list[Message] = Field(min_length=1, max_length=100_000)
    system: str | list[TextBlock] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    cache_control: CacheControl | None = None

    @classmethod
    def parse(cls, body: object, known: Sequence[Message] = ()) -> Self:
        """The request in `body`, a decoded JSON value; `known` are its first messages where they were parsed before.

        Raises:
            ApiError: 400 that names the first wrong field, in the API's form `messages.0.role: …`.
        """
        if not isinstance(body, dict):
            raise invalid("Input should be a valid dictionary")
        if known:
            body = {**body, "messages": [*known, *body["messages"][len(known) :]]}
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            raise invalid(_first_fault(error)) from None

    @property
    def card(self) -> ModelCard:
        """The model asked for; raises the API's 404 when it is unknown."""
        return find_model(self.model)

    @property
    def tool_names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.tools or ())

    @property
    def thinks(self) -> bool:
        """Whether a reply may carry thinking blocks."""
        if self.thinking is not None:
            return self.thinking.type in ("adaptive", "enabled")
        return not self.card.thinking_can_be_off


class Request(TokenRequest):
    """Body of `POST /v1/messages`: what a model sees of the world."""

    max_tokens: int = Field(ge=1)
    metadata: Metadata | None = None
    stop_sequences: list[str] | None = None
    stream: bool = False
    service_tier: Literal["auto", "standard_only"] | None = None
    inference_geo: str | None = None
    speed: Literal["standard", "fast"] | None = None

    @property
    def user_id(self) -> str | None:
        """`metadata.user_id`, by which the journal tells agents apart."""
        return self.metadata.user_id if self.metadata else None


def _first_fault(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False)
    # Content is a string or a list: of what is wrong with a list, "no string" is the least of it.
    first = next((fault for fault in faults if fault["loc"][-1:] != ("str",)), faults[0])
    path = ".".join(str(part) for part in first["loc"] if not _names_alternative(part))
    if first["type"] == "missing":
        return f"{path}: Field required"
    if first["type"] == "extra_forbidden":
        return f"{path}: Extra inputs are not permitted"
    return f"{path}: {first['msg']}"


def _names_alternative(part: int | str) -> bool:
    return isinstance(part, str) and (part == "str" or part.startswith("list["))
