import pytest

from deploy.cli.output.printing import GAP, ColumnSpace, fitted, fitted_widths

ID = ColumnSpace(30, 30, 0)
TEXT = ColumnSpace(60, 14, 2)
STATUS = ColumnSpace(9, 9, 0)
LEAST = ColumnSpace(12, 12, 5)


@pytest.mark.parametrize("available", [10, 40, 50, 60, 80, 120, 200, None])
def test_an_id_is_whole_at_any_width(available: int | None) -> None:
    assert fitted_widths([ID, TEXT, STATUS, LEAST], available)[0] == 30


@pytest.mark.parametrize("available", range(41, 140, 7))
def test_a_table_fits_its_terminal(available: int) -> None:
    widths = [width for width in fitted_widths([ID, TEXT, STATUS, LEAST], available) if width is not None]
    assert sum(widths) + GAP * (len(widths) - 1) <= available


def test_text_is_shortened_before_a_column_is_left_out_and_the_least_important_goes_first() -> None:
    assert fitted_widths([ID, TEXT, STATUS, LEAST], 80) == [30, 23, 9, 12]
    assert fitted_widths([ID, TEXT, STATUS, LEAST], 60) == [30, 17, 9, None]
    assert fitted_widths([ID, TEXT, STATUS, LEAST], 45) == [30, None, 9, None]


def test_a_cell_has_exactly_its_width_in_any_script() -> None:
    assert fitted("waiting", 5) == "wait…"
    assert fitted("ok", 5, right=True) == "   ok"
    assert fitted("工作流程名称", 7) == "工作流…"
