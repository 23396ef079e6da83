"""A 15-minute overload wall and the real gate, on a clock that jumps: no agent is lost and no herd comes after it."""

import pytest

from benchmarks.overload import OVER, WALL_BEGINS, WALL_ENDS, alone, measure, shared


@pytest.mark.parametrize("agents", [1, 8, 64])
def test_a_wall_costs_no_agent_and_few_calls(agents: int) -> None:
    traffic = shared(agents)
    assert traffic.number(WALL_BEGINS + 60, WALL_ENDS) <= 16
    assert traffic.refused <= agents + 25
    assert traffic.most(WALL_ENDS, WALL_ENDS + 90) <= 8
    assert traffic.back_at is not None
    assert traffic.back_at < OVER
    assert all(traffic.last_turn[agent] > WALL_ENDS for agent in range(agents))


def test_without_a_shared_view_it_is_a_herd() -> None:
    assert alone(64).refused > 10 * shared(64).refused


def test_all_goals_are_met() -> None:
    assert [row.what for row in measure() if row.met is False] == []
