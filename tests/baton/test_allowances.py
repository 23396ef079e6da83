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
            held[name] = books.hold(name, Decimal(1) / chains)
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
    assert books.hold("a", Decimal("0.5")).output_tokens == 50
    books.settle("a", Usage(output_tokens=10))
    assert books.hold("b").output_tokens == 90


def test_a_chain_gets_more_until_nothing_is_left() -> None:
    books = Allowances(cap=TurnLimits(output_tokens=100))
    books.hold("a", Decimal("0.25"))
    books.hold("b", Decimal("0.5"))
    more = books.extend("a", Usage(output_tokens=26), Decimal("0.5"))
    assert more is not None
    assert more.output_tokens == 26 + (100 - 26 - 37) // 2
    whole = books.extend("a", Usage(output_tokens=44))
    assert whole == TurnLimits(output_tokens=63)
    assert books.extend("a", Usage(output_tokens=63)) is None
    books.settle("b", Usage(output_tokens=5))
    freed = books.extend("a", Usage(output_tokens=63))
    assert freed == TurnLimits(output_tokens=95)


def test_a_part_is_never_too_small_to_work_with() -> None:
    books = Allowances(cap=TurnLimits(output_tokens=100_000, cost_usd=Decimal(10), model_calls=100))
    part = books.hold("a", Decimal("0.001"), useful_tokens=32_000)
    assert part == TurnLimits(output_tokens=32_000, cost_usd=Decimal("0.2"), model_calls=2)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 90), st.integers(1, 4)), max_size=60),
    st.integers(1, 1000),
)
def test_however_often_chains_ask_the_cap_holds(steps: list[tuple[int, int, int]], cap: int) -> None:
    """Each chain uses at most what it may; so the sum never exceeds the cap, and asking comes to an end."""
    books = Allowances(cap=TurnLimits(output_tokens=cap, cost_usd=Decimal(cap) / 7, model_calls=cap))
    allowed: dict[str, TurnLimits] = {}
    used: dict[str, int] = {}
    for number, tokens, chains in steps:
        name = f"chain-{number}"
        if name not in allowed:
            if books.reached() is None:
                allowed[name], used[name] = books.hold(name, Decimal(1) / chains), 0
            continue
        used[name] = min(used[name] + tokens, allowed[name].output_tokens or 0)
        if used[name] == allowed[name].output_tokens:
            more = books.extend(name, Usage(output_tokens=used[name]), Decimal(1) / chains)
            assert more is None or (more.output_tokens or 0) > used[name]
            allowed[name] = more or allowed[name]
        assert sum(part.output_tokens or 0 for part in allowed.values()) <= cap


def test_another_cap_is_shared_out_among_those_that_run() -> None:
    books = Allowances(cap=TurnLimits(output_tokens=100))
    books.hold("a", Decimal("0.5"))
    books.hold("b")
    books.cap = TurnLimits(cost_usd=Decimal(1))
    used = {"a": Usage(output_tokens=40, cost_usd=Decimal("0.4")), "b": Usage(cost_usd=Decimal("0.2"))}
    shared = books.share_out(used)
    assert shared == {"a": TurnLimits(cost_usd=Decimal("0.6")), "b": TurnLimits(cost_usd=Decimal("0.4"))}
    books.cap = TurnLimits(cost_usd=Decimal("0.1"))
    assert books.share_out(used)["a"] == TurnLimits(cost_usd=Decimal("0.4"))
    assert books.reached() == "the cost limit of 0.10 USD is reached"


def test_a_person_is_told_near_a_limit() -> None:
    books = Allowances(cap=TurnLimits(cost_usd=Decimal(10), output_tokens=1000), most_agents=10, agents=8)
    assert books.near(Usage(cost_usd=Decimal(7), output_tokens=850)) == (
        "85% of the limit of 1 000 output tokens is used",
        "80% of the limit of 10 agents is used",
    )
    assert Allowances(cap=TurnLimits(cost_usd=Decimal(0))).near(Usage()) == ()
