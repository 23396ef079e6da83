"""Answering with keys: nothing is sent before it was confirmed, and a question that is gone takes no answer."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from baton.status import AttentionItem
from cli.dialog import Dialog, Reply

NOW = datetime(2026, 11, 30, tzinfo=UTC)
APPROVAL = AttentionItem(
    id="approval-1", kind="approval", question="?", choices=("approve", "reject"), since=NOW, phase="planning"
)
LIMIT = AttentionItem(id="limit-2", kind="limit", question="?", choices=("raise", "integrate", "stop"), since=NOW)


def after(item: AttentionItem, keys: str) -> tuple[Dialog, list[Reply]]:
    dialog = Dialog()
    dialog.about([item])
    return dialog, [reply for key in keys if (reply := dialog.press(key)) is not None]


def shown(dialog: Dialog) -> str:
    return "\n".join(line.text for line in dialog.lines())


def test_one_key_chooses_and_another_confirms() -> None:
    dialog, replies = after(APPROVAL, "")
    assert shown(dialog) == "keys: a approve · r reject"
    dialog, replies = after(APPROVAL, "a")
    assert (shown(dialog), replies) == ("planning: approve? Enter or y sends it, any other key goes back", [])
    for confirm in "y\n\r":
        assert after(APPROVAL, f"a{confirm}")[1] == [Reply(APPROVAL, "approve")]
    dialog, replies = after(APPROVAL, "ax")
    assert (shown(dialog), replies) == ("keys: a approve · r reject", [])


def test_a_rejection_and_a_raise_take_a_remark() -> None:
    assert after(APPROVAL, "rno yak\x7f\x7fw\r")[1] == [Reply(APPROVAL, "reject", "no yw")]
    assert after(APPROVAL, "r\n")[1] == [Reply(APPROVAL, "reject")]
    assert after(LIMIT, "1nonsense\x1540\n")[1] == [Reply(LIMIT, "raise", "40")]
    assert after(LIMIT, "2y")[1] == [Reply(LIMIT, "integrate")]
    dialog, _ = after(LIMIT, "14")
    assert shown(dialog) == "limit-2: raise; the new limit, such as 40 or 6h (Enter, or Esc): 4▏"
    dialog, replies = after(LIMIT, "14\x1b")
    assert (shown(dialog), replies) == ("keys: 1 raise · 2 integrate · 3 stop", [])


def test_a_question_that_is_gone_takes_its_half_answer_with_it() -> None:
    dialog, _ = after(APPROVAL, "a")
    dialog.about([LIMIT])
    assert dialog.press("y") is None
    dialog.about([])
    assert [dialog.press(key) for key in "ay"] == [None, None]
    dialog.say("taken")
    assert shown(dialog) == "taken"


@given(st.text(max_size=40), st.sampled_from([APPROVAL, LIMIT]))
def test_no_keys_send_what_was_not_chosen_and_confirmed(typed: str, item: AttentionItem) -> None:
    dialog = Dialog()
    dialog.about([item])
    for before, key in zip(" " + typed, typed, strict=False):
        reply = dialog.press(key)
        assert all(line.text.isprintable() for line in dialog.lines())
        if reply is not None:
            assert reply.choice in item.choices
            assert key in "\n\ryY"
            assert before != " " or reply.comment or reply.choice in {"reject", "raise"}
