"""What handing off costs: output tokens, the successor's first request, and the share of input read from cache.

The stand-in model modernises the sample repository in one chain of agents; the figures come from the task's trace.
"""

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from baton.messages import TaskInput
from baton.status import TaskResult
from benchmarks.table import Row
from cli.sample import build_sample_repository
from emulator.standin import StandIn
from tests.workflows.rig import Rig

LONG_LIFE_TURNS = 20
GOAL_BUDGET_TOKENS = 32_000
"""The goals are set for the default budget; a smaller one shows how the figures move."""


async def measure(rig: Rig, budget_tokens: int) -> list[Row]:
    """Run the task at a budget and read its trace."""
    folder = rig.folder / f"handoffs-{budget_tokens}"
    folder.mkdir()
    repository = build_sample_repository(folder)
    settings = {"outputBudget": budget_tokens, "maxAgents": 80, "gates": [], "sandbox": "off"}
    with rig.api(StandIn(), keep=False):
        result = await rig.run(
            TaskInput(task="Modernise the string formatting", repository=str(repository), settings=settings)
        )
    rows = _figures(_trace(result), result)
    if budget_tokens == GOAL_BUDGET_TOKENS:
        return rows
    return [replace(row, goal="", met=None) for row in rows]


def _trace(result: TaskResult) -> list[dict[str, Any]]:
    text = (Path(result.artifacts) / "trace.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _figures(trace: list[dict[str, Any]], result: TaskResult) -> list[Row]:
    calls = [line for line in trace if line["kind"] == "model"]
    handing_off = {(line["agent"], line["turn"]) for line in trace if line.get("tool") == "hand_off"}
    spent = sum(line["output_tokens"] for line in calls if (line["agent"], line["turn"]) in handing_off)
    share = spent / sum(line["output_tokens"] for line in calls)
    lives: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in calls:
        lives[line["agent"]].append(line)
    chain = [life for agent, life in lives.items() if agent.startswith("executor-2")]
    firsts = [after[0]["input_tokens"] / before[-1]["input_tokens"] for before, after in pairwise(chain)]
    long_lives = [life for life in lives.values() if len(life) >= LONG_LIFE_TURNS]
    cached = [sum(c["cache_read_tokens"] for c in life) / sum(c["input_tokens"] for c in life) for life in long_lives]
    return [
        Row("agents, handoffs", f"{result.agents}, {result.handoffs}"),
        Row("output tokens spent on handing off", f"{share:.1%}", "at most 5 %", share <= 0.05),
        Row(
            "successor's first request / predecessor's last (input tokens)",
            f"{max(firsts):.0%} at most" if firsts else "no handoff",
            "at most 10 %",
            max(firsts) <= 0.10 if firsts else None,
        ),
        Row(
            f"input read from cache over a life of {LONG_LIFE_TURNS} turns and more",
            f"{min(cached):.0%} at least" if cached else "no agent lived so long",
            "at least 90 %",
            min(cached) >= 0.90 if cached else None,
        ),
    ]
