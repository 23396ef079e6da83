"""The prompts, read from the text files of `baton/prompts`."""

from functools import lru_cache
from importlib import resources

from baton.conversation import NoticeKind
from baton.roles import SUBMISSION_TOOLS, Role


@lru_cache(maxsize=64)
def prompt(name: str) -> str:
    """The text of `baton/prompts/<name>.md`."""
    return (resources.files("baton.prompts") / f"{name}.md").read_text(encoding="utf-8").strip()


def system_prompt(role: Role, own: str = "") -> str:
    """What an agent is told about itself: the common part, its role's, then that of its agent type."""
    return "\n\n".join(part for part in (prompt("common"), prompt(role), own) if part)


def notice_text(kind: NoticeKind, role: Role) -> str:
    """The text of a notice that has none of its own."""
    return prompt(f"notice_{kind}").replace("{submission_tool}", SUBMISSION_TOOLS[role])
