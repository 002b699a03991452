import pytest

from console.run.tabs import TABS, link_of, tab_of


@pytest.mark.parametrize("tab", TABS)
def test_an_address_names_its_tab(tab: str) -> None:
    assert tab_of({"tab": tab, "of": "a step"}) == tab


@pytest.mark.parametrize(
    ("query", "tab"),
    [({}, "steps"), ({"step": "a"}, "steps"), ({"kind": "steps"}, "events"), ({"outputs": "40"}, "results")],
)
def test_an_address_without_a_tab_leads_where_its_list_is(query: dict[str, str], tab: str) -> None:
    assert tab_of(query) == tab
    assert tab_of({**query, "tab": "unknown"}) == tab


def test_a_link_leaves_out_what_is_empty() -> None:
    assert link_of("/runs/run_1", {"tab": "events", "of": "", "after_seq": None}, "log") == "/runs/run_1?tab=events#log"
    assert link_of("/runs/run_1", {}, "") == "/runs/run_1"
