"""Every name that telemetry uses: spans, attributes, events, metrics.

`gen_ai.*` and `error.type` are OpenTelemetry's conventions for generative AI (in development, so they may still
change: here is the one place). What they have no name for begins with `baton.`.
"""

from typing import NamedTuple

SCOPE = "baton"
SERVICE = "baton"
PROVIDER = "anthropic"

# Operations: the values of `gen_ai.operation.name`, and the first word of a span's name.
INVOKE_WORKFLOW = "invoke_workflow"
INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"

# Spans of ours.
MERGE = "baton.merge"
GATE = "baton.gate"
WAIT = "baton.wait"
RESTORE = "baton.restore"
COMMANDS = "baton.commands"

# Attributes of the conventions.
OPERATION = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
WORKFLOW_NAME = "gen_ai.workflow.name"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - the name of an attribute
ERROR_TYPE = "error.type"

# Content, by opt-in only.
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
TEXT = "baton.text"

# Attributes of ours.
TASK = "baton.task.id"
STATE = "baton.task.state"
ROLE = "baton.agent.role"
STEP = "baton.step"
TURN = "baton.turn"
TURNS = "baton.turns"
ATTEMPT = "baton.attempt"
OUTCOME = "baton.outcome"
REASON = "baton.reason"
SUCCESSOR = "baton.successor"
COST = "baton.cost_usd"
CACHE_SHARE = "baton.cache_share"
AGENTS = "baton.agents"
HANDOFFS = "baton.handoffs"
ITEMS = "baton.items"
ITEMS_DONE = "baton.items_done"
ITEM_STATUS = "baton.item.status"
WAIT_REASON = "baton.wait.reason"
WAITED_FOR = "baton.waited_for"
CALLS = "baton.calls"
PHASE = "baton.phase"
NAME = "baton.name"
WORKSPACE = "baton.workspace"
PATHS = "baton.paths"

# Events.
HANDOFF_EVENT = "baton.handoff"
DECISION_EVENT = "baton.decision"
REFUSAL_EVENT = "baton.ownership_refused"
LIMIT_EVENT = "baton.limit"
ATTENTION_EVENT = "baton.attention"
MERGED_EVENT = "baton.merged"
CONFLICT_EVENT = "baton.conflict"
HAPPENING_EVENT = "baton.happening"

# Metrics.
TOKEN_USAGE = "gen_ai.client.token.usage"  # noqa: S105 - the name of a metric
DURATION = "gen_ai.client.operation.duration"
ITEMS_FINISHED = "baton.items.finished"
HANDOFF_COUNT = "baton.handoffs.count"
COST_SPENT = "baton.cost.spent"
CACHE_RATIO = "baton.cache.ratio"
WAIT_DURATION = "baton.wait.duration"


class Metric(NamedTuple):
    """A metric: its unit, what it says, and the bounds of its buckets where it is a histogram."""

    unit: str
    about: str
    boundaries: tuple[float, ...] = ()


METRICS = {
    # The bounds of the first two are those of the conventions.
    TOKEN_USAGE: Metric("{token}", "Tokens of a model call.", tuple(4.0**power for power in range(14))),
    DURATION: Metric("s", "How long an operation took.", tuple(0.01 * 2**power for power in range(14))),
    ITEMS_FINISHED: Metric("{item}", "Items that agents finished."),
    HANDOFF_COUNT: Metric("{handoff}", "Agents that handed off to another."),
    COST_SPENT: Metric("USD", "What model calls cost."),
    CACHE_RATIO: Metric("1", "Share of the input that came from the cache.", tuple(tenth / 10 for tenth in range(11))),
    WAIT_DURATION: Metric(
        "s", "How long somebody or something was waited for.", (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400)
    ),
}
