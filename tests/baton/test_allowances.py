"""No two chains get the same money, and nothing is lost when one of them needs less."""

from decimal import ROUND_DOWN, Decimal

from hypothesis import given
from hypothesis import strategies as st

from baton.allowances import SMALLEST_USD, Allowances
from baton.messages import TurnLimits
from baton.pricing import Usage


def test_zero_is_zero_and_none_is_no_limit() -> None:
    assert Allowances(cap=TurnLimits(cost_usd=Decimal(0))).reached() is not None
    assert Allowances().reached() is None


def test_one_agent_is_kept_for_the_integrator() -> None:
    books = Allowances(most_agents=2)
    assert books.count_agent()
    assert not books.count_agent()
    assert books.count_agent(for_integrator=True)
    assert not books.count_agent(for_integrator=True)
    books.return_agent()
    assert books.count_agent(for_integrator=True)


actions = st.lists(
    st.tuples(st.sampled_from(["hold", "settle"]), st.integers(0, 5), st.integers(1, 4), st.floats(0, 1)), max_size=40
)


@given(actions, st.integers(0, 1000))
def test_what_is_settled_and_held_never_exceeds_the_cap(steps: list[tuple[str, int, int, float]], cap: int) -> None:
    books = Allowances(cap=TurnLimits(output_tokens=cap, cost_usd=Decimal(cap), model_calls=cap))
    held: dict[str, TurnLimits] = {}
    for what, number, chains, share in steps:
        name = f"chain-{number}"
        if what == "hold" and name not in held:
            held[name] = books.hold(name, chains)
        elif what == "settle" and name in held:
            part = held.pop(name)
            books.settle(
                name,
                Usage(
                    output_tokens=int((part.output_tokens or 0) * share),
                    cost_usd=((part.cost_usd or Decimal(0)) * Decimal(share)).quantize(SMALLEST_USD, ROUND_DOWN),
                    model_calls=int((part.model_calls or 0) * share),
                ),
            )
        for key in ("output_tokens", "cost_usd", "model_calls"):
            total = getattr(books.settled, key) + sum(getattr(part, key) for part in held.values())
            assert total <= cap
        assert books.running == len(held)


def test_what_a_chain_did_not_need_goes_to_the_next() -> None:
    books = Allowances(cap=TurnLimits(output_tokens=100))
    assert books.hold("a", 2).output_tokens == 50
    books.settle("a", Usage(output_tokens=10))
    assert books.hold("b", 1).output_tokens == 90
