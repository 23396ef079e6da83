"""The two kinds of pydantic model everything here is made of.

`Stored` values live in histories, journals and files: they ignore fields they do not know, so that an older
worker can read what a newer one wrote. `Submitted` values come from a model or a person: an unknown field is a
mistake and is named.
"""

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict


class Stored(BaseModel):
    """A frozen value that outlives the process that made it."""

    model_config = ConfigDict(frozen=True, extra="ignore", serialize_by_alias=True, defer_build=True)


class Submitted(BaseModel):
    """A frozen value that somebody typed or a language model produced."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True, defer_build=True)


def build_all() -> None:
    """Build every model of ours that is defined by now. Else each is built when it is first needed: a command, which
    needs few, starts sooner, but a worker would do so in its first task."""
    for model in (*_below(Stored), *_below(Submitted)):
        if not model.__pydantic_complete__:
            model.model_rebuild()


def _below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for below in model.__subclasses__():
        yield below
        yield from _below(below)
