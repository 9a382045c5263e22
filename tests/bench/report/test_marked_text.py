"""Generated text inside a page that people write."""

import pytest

from swr.bench.report.marked_text import MarksError, outside, put_between


def test_only_what_stands_between_the_marks_is_replaced(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("# Mine\n\n<a>\nold\n</a>\n\nthe end\n")
    put_between(path, "<a>", "</a>", "new")
    assert path.read_text() == "# Mine\n\n<a>\n\nnew\n</a>\n\nthe end\n"


def test_a_new_file_has_marks(tmp_path):
    put_between(tmp_path / "new.md", "<a>", "</a>", "text")
    assert outside(tmp_path / "new.md", "<a>", "</a>") == ("", "\n")


def test_a_page_without_the_second_mark_is_refused_and_kept(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("<a> years of work")
    with pytest.raises(MarksError, match="add the lines <a> and </a> to it"):
        put_between(path, "<a>", "</a>", "new")
    assert path.read_text() == "<a> years of work"
