"""Conversations as chains of nodes: the same from memory and from disk, and never half."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from activities.conversations import CONVERSATIONS_KEPT, Conversations, bytes_of
from activities.store import LostBlobError, Store
from baton.conversation import Opening, Response, Turn, messages
from baton.facts import TurnFacts


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def opening(name: str = "executor-1") -> Opening:
    content = ({"type": "text", "text": "Go. ä 日"},)
    return Opening(agent_id=name, model="m", user_id="u", system="s", tools=(), content=content, items=("a", "b"))


def grow(store: Store, conversations: Conversations, head: str, turns: int) -> str:
    for number in range(turns):
        text = {"type": "text", "text": f"Turn {number}"}
        response = Response(id="r", model="m", stop_reason="end_turn", content=(text,))
        facts = TurnFacts(read=(f"{number}.py",)).model_dump(mode="json")
        turn = Turn(parent=head, turn=number + 1, user=(text,), response=response, replay=(text,), facts=facts)
        data = bytes_of(turn)
        head = conversations.grow(conversations.load(head), turn, data)
        assert store.put(data) == head
    return head


def test_memory_and_disk_say_the_same(store: Store) -> None:
    conversations = Conversations(store)
    head = grow(store, conversations, conversations.start(opening()), 5)
    known, read = conversations.load(head), Conversations(store).load(head)
    assert known == read
    assert read.facts.read == {f"{number}.py" for number in range(5)}
    assert messages(read.opening, read.turns, ())[-1]["content"][-1]["text"] == "Turn 4"


def test_a_node_is_named_by_what_it_says(store: Store) -> None:
    conversations = Conversations(store)
    root = conversations.start(opening())
    assert conversations.start(opening()) == root
    assert conversations.start(opening("executor-2")) != root
    assert grow(store, conversations, root, 3) == grow(store, Conversations(store), root, 3)


def test_two_branches_share_their_beginning(store: Store) -> None:
    conversations = Conversations(store)
    root = conversations.start(opening())
    long, short = grow(store, conversations, root, 4), grow(store, conversations, root, 2)
    assert conversations.load(long).turns[:2] == conversations.load(short).turns


def test_more_conversations_than_are_kept(store: Store) -> None:
    conversations = Conversations(store)
    heads = [
        grow(store, conversations, conversations.start(opening(f"agent-{n}")), 2) for n in range(CONVERSATIONS_KEPT)
    ]
    assert [conversations.load(head).opening.agent_id for head in heads] == [
        f"agent-{n}" for n in range(CONVERSATIONS_KEPT)
    ]


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"no JSON", json.dumps({"kind": "song"}).encode()])
def test_a_blob_that_is_no_node(store: Store, content: bytes) -> None:
    with pytest.raises(LostBlobError, match="no conversation node"):
        Conversations(store).load(store.put(content))


def test_a_hole_in_the_chain(store: Store, tmp_path: Path) -> None:
    conversations = Conversations(store)
    head = grow(store, conversations, conversations.start(opening()), 5)
    middle = conversations.load(head).turns[2].parent
    (tmp_path / "blobs" / middle[:2] / middle[2:]).unlink()
    with pytest.raises(LostBlobError, match="missing"):
        Conversations(store).load(head)


def test_bytes_per_turn_are_constant(store: Store, tmp_path: Path) -> None:
    def size() -> int:
        return sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())

    conversations = Conversations(store)
    head, sizes = conversations.start(opening()), [size()]
    for _ in range(3):
        head = grow(store, conversations, head, 20)
        sizes.append(size())
    grown = [later - earlier for earlier, later in pairwise(sizes)]
    assert max(grown) - min(grown) < 0.02 * max(grown)
