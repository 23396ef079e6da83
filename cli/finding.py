"""What `doctor` found: one fact about this machine or the service, and what to do where it is not well."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class State(StrEnum):
    """How much a finding matters. A fault prevents work."""

    OK = "ok"
    NOTE = "note"
    FAULT = "fault"


class Finding(BaseModel):
    """One line of `doctor`; `remedy` says what to do, never present where all is well."""

    model_config = ConfigDict(frozen=True)

    name: str
    state: State
    text: str
    remedy: str | None = None


def ok(name: str, text: str) -> Finding:
    """All is well."""
    return Finding(name=name, state=State.OK, text=text)


def note(name: str, text: str, remedy: str) -> Finding:
    """Work goes on, with less."""
    return Finding(name=name, state=State.NOTE, text=text, remedy=remedy)


def fault(name: str, text: str, remedy: str) -> Finding:
    """Nothing works before this is mended."""
    return Finding(name=name, state=State.FAULT, text=text, remedy=remedy)
