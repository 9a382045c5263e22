import pytest

from swr.bench.report.text_chart import LEAST, WIDTH, Axis, beside

ROWS = [["seed", "difference"], ["0", "+0.02"], ["mean", "+0.01"]]


def test_a_mark_stands_where_its_value_is_and_an_interval_from_end_to_end():
    axis = Axis([-1.0, 1.0], 21)
    assert axis.draw([0.5], None) == "          │    ●     "
    assert axis.draw([0.5], (-0.5, 1.0)) == "     ─────┼────●─────"
    assert axis.draw([], (0.2, 1.0)) == "          │ ─────────"


def test_zero_is_on_every_axis_and_equal_values_have_one_too():
    assert Axis([0.2, 0.4], 11).at(0.0) == 0
    assert Axis([-0.2, -0.4], 11).at(0.0) == 10
    assert Axis([0.0], 11).at(0.0) == 5
    assert "●" not in Axis([float("nan")], 11).draw([float("nan")], None)


@pytest.mark.parametrize("value", [0.02, -0.02, 0.0, 123.456])
def test_a_chart_fits_a_terminal_and_has_a_line_for_each_row(value):
    text = beside(ROWS, [([value], None), ([value], (value - 0.01, value + 0.01))])
    assert len(text.splitlines()) == 5
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.count("●") == 2
    assert " 0" in text.splitlines()[-1]


def test_a_wide_table_leaves_a_chart_that_can_be_read():
    text = beside([["x" * 100], ["y"]], [([1.0], None)])
    assert len(text.splitlines()[2]) == 100 + 2 + LEAST
