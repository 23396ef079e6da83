"""Pure decisions of Baton: standard library and pydantic only, no I/O, no clock."""
