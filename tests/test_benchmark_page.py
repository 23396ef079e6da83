"""The page about the measurements keeps what people wrote, and the figures that were not measured anew."""

from pathlib import Path

import pytest

from benchmarks.markdown import BEGIN, END, write
from benchmarks.table import Row

PAGE = f"# Performance\n\nBefore.\n\n{BEGIN}\n{END}\n\nAfter.\n"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "performance.md"
    path.write_text(PAGE, encoding="utf-8")
    return path


def test_figures_stand_between_the_marks(page: Path) -> None:
    write(page, {"Turns": [Row("a | b", "7 ms", "under 9", True), Row("c", "8 ms", "under 1", False)]}, "2 cores")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Performance\n\nBefore.\n")
    assert text.endswith(f"{END}\n\nAfter.\n")
    assert "### Turns\n\n| figure | value | goal | |\n|---|---|---|---|\n" in text
    assert "| a \\| b | 7 ms | under 9 | met |\n| c | 8 ms | under 1 | NOT met |\n" in text
    assert ", 2 cores.\n" in text


def test_a_table_measured_again_is_replaced_and_others_stay(page: Path) -> None:
    write(page, {"Turns": [Row("t", "1 ms")], "Items": [Row("i", "2 ms")]}, "2 cores")
    write(page, {"Turns": [Row("t", "3 ms")]}, "4 cores")
    text = page.read_text(encoding="utf-8")
    assert "1 ms" not in text
    assert text.index("3 ms") < text.index("2 ms")
    assert text.count("### ") == 2
    again = page.read_text(encoding="utf-8")
    write(page, {}, "4 cores")
    assert page.read_text(encoding="utf-8") == again


def test_a_page_without_marks_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("text\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no place for figures"):
        write(path, {"Turns": [Row("t", "1 ms")]}, "2 cores")
    assert path.read_text(encoding="utf-8") == "text\n"
