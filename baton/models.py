"""The two kinds of pydantic model everything here is made of.

`Stored` values live in histories, journals and files: they ignore fields they do not know, so that an older
worker can read what a newer one wrote. `Submitted` values come from a model or a person: an unknown field is a
mistake and is named.
"""

from pydantic import BaseModel, ConfigDict


class Stored(BaseModel):
    """A frozen value that outlives the process that made it."""

    model_config = ConfigDict(frozen=True, extra="ignore", serialize_by_alias=True, defer_build=True)


class Submitted(BaseModel):
    """A frozen value that somebody typed or a language model produced."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True, defer_build=True)
