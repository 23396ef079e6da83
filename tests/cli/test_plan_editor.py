"""A plan in a person's editor: what it shows, what is taken, and what comes back."""

import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.steering import given_plan
from cli.exits import Refused
from cli.plan_editor import Unchanged, edit_until_taken, parsed, plan_text, with_faults

PLAN = {
    "task_id": "t",
    "mode": "orchestrated",
    "execution_strategy": "parallel",
    "notes": ["steps 1 and 2\nare in sequence"],
    "plan": [
        {"step": 1, "agent_type": "x", "description": "Do: it", "items": ["a.py", "b c.py"], "depends_on": [],
         "handoff_strategy": "sequential", "run": None},
        {"step": 2, "agent_type": "y", "description": "Ä", "items": [], "depends_on": [1], "owns": ["out/**"]},
    ],
}  # fmt: skip


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the editor a script; each time it is opened it does the next of these."""

    def make(*scripts: str) -> None:
        for number, script in enumerate(scripts, 1):
            (tmp_path / f"do-{number}").write_text(script)
        path = tmp_path / "an editor"
        count = tmp_path / "count"
        count.write_text("0")
        path.write_text(
            f'n=$(($(cat "{count}")+1)); echo $n > "{count}"; cp "$1" "{tmp_path}/seen-$n"; . "{tmp_path}/do-$n"'
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("GIT_EDITOR", f"sh '{path}'")

    make.seen = lambda n: (tmp_path / f"seen-{n}").read_text()  # type: ignore[attr-defined]
    return make


def test_the_text_is_the_plan() -> None:
    document = parsed(plan_text(PLAN))
    assert document is not None
    draft, approve = given_plan(document)
    assert not approve
    assert [step.items for step in draft.plan] == [("a.py", "b c.py"), ()]
    assert (draft.plan[1].owns, draft.plan[1].depends_on, draft.execution_strategy) == (("out/**",), (1,), "parallel")
    assert "# note: steps 1 and 2 are in sequence" in plan_text(PLAN)
    assert [step["step"] for step in yaml.safe_load(plan_text(PLAN, over=[1]))["plan"]] == [2]


def test_faults_stand_at_the_top_and_only_the_newest() -> None:
    text = with_faults(with_faults("plan: []\n", "- one"), "- two")
    assert text == "#! This plan was not taken:\n#! - two\nplan: []\n"
    with pytest.raises(ValueError, match="no YAML"):
        parsed("plan: [")
    with pytest.raises(ValueError, match="the key 'plan'"):
        parsed("steps: []")


class Taker:
    """A task that takes a plan once it is as it wants it."""

    def __init__(self, *faults: str) -> None:
        self.faults = list(faults)
        self.given: list[dict[str, Any]] = []

    async def __call__(self, plan: dict[str, Any]) -> str | None:
        self.given.append(plan)
        return self.faults.pop(0) if self.faults else None


async def test_an_edited_plan_is_taken(editor: Any) -> None:
    editor('sed -i s/a.py/z.py/ "$1"')
    taker = Taker()
    assert await edit_until_taken(plan_text(PLAN), taker)
    assert taker.given[0]["plan"][0]["items"] == ["z.py", "b c.py"]


async def test_faults_are_shown_and_the_editor_opened_again(editor: Any) -> None:
    editor('sed -i s/a.py/z.py/ "$1"', 'sed -i s/agent_type/agent/ "$1"', 'sed -i s/agent:/agent_type:/ "$1"')
    taker = Taker("the plan has faults:\n- step 1: z.py is not there")
    assert await edit_until_taken(plan_text(PLAN), taker)
    assert "#! - step 1: z.py is not there\n" in editor.seen(2)
    assert "#! - plan.0.agent_type: Field required" in editor.seen(3)
    assert "z.py is not there" not in editor.seen(3)
    assert len(taker.given) == 2


async def test_what_takes_nothing(editor: Any) -> None:
    editor(":")
    with pytest.raises(Unchanged):
        await edit_until_taken(plan_text(PLAN), Taker())
    editor(': > "$1"')
    assert not await edit_until_taken(plan_text(PLAN), Taker())
    editor("exit 3")
    with pytest.raises(Refused, match="ended with 3; nothing was changed"):
        await edit_until_taken(plan_text(PLAN), Taker())
    editor('sed -i s/a.py/z.py/ "$1"', ":")
    with pytest.raises(Refused, match="saved again as it was:\nno"):
        await edit_until_taken(plan_text(PLAN), Taker("no", "no"))
