"""The manifest holds what facts show, whatever the model claimed."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from baton.facts import AgentFacts, SavedPart, Submission
from baton.knowledge import Entry
from baton.ledger import ItemRecord, ItemStatus
from baton.manifest import FromAgent, Handing, HandoffReason, Manifest, complete
from baton.plan import PlanStep

AT = datetime(2026, 11, 30, 8, tzinfo=UTC)
ITEMS = ("a.py", "b.py", "c.py")


def handing(**fields: Any) -> Handing:
    return Handing(
        **{
            "agent_id": "executor-1-x",
            "successor_id": "executor-1-x~2",
            "task_id": "t",
            "task": "modernise",
            "reason": HandoffReason.OUTPUT_LIMIT,
            "from_agent": FromAgent(id="executor-1-x", output_tokens=3, turns=2, model="m"),
            "step": PlanStep(step=1, agent_type="x", description="d", items=ITEMS, success_criteria=("green",)),
            "commit": "abc",
            "at": AT,
            **fields,
        }
    )


def facts(done: tuple[str, ...] = ("a.py",), claim: object = None, **fields: Any) -> AgentFacts:
    return AgentFacts(
        items=ITEMS,
        records={item: ItemRecord(item=item, status=ItemStatus.CHANGED) for item in done},
        submission=None if claim is None else Submission(tool="hand_off", input=claim),
        **fields,
    )


def test_a_missing_hand_off_is_completed_from_facts() -> None:
    manifest = complete(handing(), facts(current_item="b.py"), ["b.py"])
    assert manifest.completed_items == ("a.py",)
    assert manifest.in_progress_item is not None
    assert (manifest.in_progress_item.file, manifest.in_progress_item.last_action) == (
        "b.py",
        "changed, not yet completed",
    )
    assert manifest.pending_items == ("c.py",)
    assert "comes from facts" in manifest.verification.corrections[0]


def test_an_honest_hand_off_is_kept() -> None:
    claim = {"in_progress_item": {"file": "b.py", "line_number": 7, "progress": 40}, "notes": "half way"}
    manifest = complete(handing(), facts(claim=claim))
    assert manifest.in_progress_item is not None
    assert manifest.in_progress_item.line_number == 7
    assert manifest.notes == "half way"
    assert manifest.verification.corrections == ()


def test_a_lie_is_corrected_and_noted() -> None:
    done = complete(handing(), facts(claim={"in_progress_item": {"file": "a.py"}}))
    assert done.in_progress_item is None
    assert "recorded as changed" in done.verification.corrections[0]
    foreign = complete(handing(), facts(claim={"in_progress_item": {"file": "z.py"}}))
    assert "no open item" in foreign.verification.corrections[0]


def test_a_malformed_hand_off_does_not_matter() -> None:
    manifest = complete(handing(), facts(claim={"in_progress_item": {"progress": 900}, "nonsense": 1}))
    assert manifest.pending_items == ("b.py", "c.py")
    assert "could not be read" in manifest.verification.corrections[0]


def test_it_carries_context_knowledge_and_the_chain_of_custody() -> None:
    known = (
        Entry(kind="decision", text="use f-strings", rationale="shorter", agent_id="x", at=AT),
        Entry(kind="issue", text="odd file", file="q.py", agent_id="x", at=AT),
        Entry(kind="pattern", text="imports first", agent_id="x", at=AT),
    )
    first = complete(handing(completed_steps=(1,)), facts(knowledge=known))
    assert first.context.original_task == "modernise"
    assert first.context.success_criteria == ("green",)
    assert [d.decision for d in first.decisions_made] == ["use f-strings"]
    assert [i.file for i in first.issues_encountered] == ["q.py"]
    assert first.patterns_established == ("imports first",)
    second = complete(
        handing(
            inherited=first,
            agent_id="executor-1-x~2",
            successor_id="executor-1-x~3",
            chain=first.chain,
            done_before=tuple(facts().records.values()),
        ),
        AgentFacts(items=("b.py", "c.py")),
    )
    assert second.completed_items == ("a.py",)
    assert [d.decision for d in second.decisions_made] == ["use f-strings"]
    assert [(link.from_, link.to) for link in second.chain] == [
        ("executor-1-x", "executor-1-x~2"),
        ("executor-1-x~2", "executor-1-x~3"),
    ]
    dumped = second.model_dump(mode="json")
    assert dumped["chain"][0]["from"] == "executor-1-x"
    assert Manifest.model_validate(dumped) == second


def test_without_a_successor_it_says_so() -> None:
    last = complete(handing(successor_id=None), facts())
    assert (last.status, last.to_agent, last.chain) == ("stopped", None, ())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
claims = st.dictionaries(
    st.sampled_from(["in_progress_item", "notes", "decisions_made", "extra"]), json_values, max_size=4
)


@given(st.sets(st.sampled_from(ITEMS)), st.none() | claims, st.none() | st.sampled_from(ITEMS))
def test_no_claim_loses_or_invents_an_item(done: set[str], claim: Any, current: str | None) -> None:
    manifest = complete(handing(), facts(tuple(sorted(done)), claim, current_item=current))
    in_progress = {manifest.in_progress_item.file} if manifest.in_progress_item else set()
    assert set(manifest.completed_items) == done
    assert set(manifest.pending_items) | in_progress == set(ITEMS) - done


def test_what_is_on_disk_of_a_cut_write_is_known_better_than_any_claim() -> None:
    claim = {"in_progress_item": {"file": "b.py", "line_number": 9_999, "remaining_work": ["the tests"]}}
    grown = complete(handing(), facts(claim=claim, saved_part=SavedPart(file="b.py", line_number=120, rest="x = ")))
    item = grown.in_progress_item
    assert item is not None
    assert (item.line_number, item.partial_state) == (120, "x = ")
    assert item.remaining_work == ("the tests", "go on with append at_line 120; do not start again")
    rewritten = complete(handing(), facts(saved_part=SavedPart(file="b.py", line_number=0, replaces=True)))
    assert rewritten.in_progress_item is not None
    assert "as it was before" in (rewritten.in_progress_item.last_action or "")
