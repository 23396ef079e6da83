"""Questions that the first message answers are told apart from those that it leaves open."""

import pytest

from baton.first_message import assignment_message
from baton.questions import answered_before

MANIFEST = {
    "decisions_made": [{"decision": "Date columns become datetime.date, never strings", "rationale": "sorting"}],
    "issues_encountered": [{"file": "src/orders.py", "issue": "circular import", "resolution": "import inside"}],
}
ASSIGNMENT = assignment_message({"manifest": MANIFEST, "knowledge": ["Prices are Decimal everywhere"]})
OPENING = [{"type": "text", "text": text} for text in ("Project guidance", ASSIGNMENT)]


@pytest.mark.parametrize(
    ("question", "answered"),
    [
        ("Which type should date columns become?", True),
        ("What about the circular import in src/orders.py?", True),
        ("Are prices Decimal?", True),
        ("Which database driver does the test suite need?", False),
        ("Why?", False),
        ("", False),
    ],
)
def test_questions(question: str, answered: bool) -> None:
    assert answered_before(question, OPENING) is answered


def test_a_first_agent_has_nothing_to_look_in() -> None:
    opening = [{"type": "text", "text": assignment_message({"manifest": None, "knowledge": []})}]
    assert not answered_before("Which type should date columns become?", opening)
    assert not answered_before(
        "Which type should it become?", [{"type": "text", "text": "<assignment>\n{\n</assignment>"}]
    )
