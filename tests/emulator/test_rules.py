"""The stand-in's tools of thought: edits from differences, pages of files, conversion rules."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.hunks import apply, hunks
from emulator.modernize import RuleError, modernize

LINES = st.lists(st.sampled_from(["", "a", "b", "aa", "    a", "x = 1"]), max_size=12).map("\n".join)


@given(LINES, LINES)
@settings(max_examples=300, deadline=None)
def test_edits_are_unique_and_lead_from_one_text_to_the_other(before: str, after: str) -> None:
    text = before
    for hunk in hunks(before, after):
        if hunk.old.strip():  # a text without anything in it cannot be found, only replaced whole
            assert text.count(hunk.old) == 1
            text = apply(text, hunk.old, hunk.new)
        else:
            assert hunk.old == text
            text = hunk.new
    assert text == after


def test_a_large_monotonous_file_is_edited_where_it_changed() -> None:
    before = "\n".join(["same"] * 900 + ["old 1"] + ["same"] * 900 + ["old 2"] + ["same"] * 900)
    edits = list(hunks(before, before.replace("old", "new")))
    assert [(edit.line, edit.old, edit.new) for edit in edits] == [(901, "old 1", "new 1"), (1802, "old 2", "new 2")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('x = "%s" % (a,)\n', 'x = f"{a}"\n'),
        ('x = "{} {}".format(a, b)\n', 'x = f"{a} {b}"\n'),
        ("x = set([1, 2])\n", "x = {1, 2}\n"),
        ("x = '%d' % a\n", "x = '%d' % a\n"),  # differs for floats: the rules leave it
        ("x = template.format(a)\n", "x = template.format(a)\n"),
        ("", ""),
        ("\ufeffx = '%s' % (a,)\n", "\ufeffx = f'{a}'\n"),
    ],
)
def test_rules(old: str, new: str) -> None:
    assert modernize(old) == new
    assert modernize(new) == new


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("print 'x'\n", "not valid Python 3"),
        ("# coding: latin-1\n", "declares the encoding latin-1"),
        ("x = '\0'\n", "not valid Python 3"),
    ],
)
def test_what_the_rules_cannot_handle_is_named(source: str, reason: str) -> None:
    with pytest.raises(RuleError, match=reason):
        modernize(source)
