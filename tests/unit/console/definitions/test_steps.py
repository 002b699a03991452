from typing import Any

import pytest

from console.definitions.steps import step_nodes


@pytest.mark.parametrize(
    ("step", "note"),
    [
        ({"agent": "reader"}, "reader"),
        ({}, "no agent"),
        ({"approval": {"title": "Right?"}}, "approval"),
        ({"workflow": "Other", "version": 3}, "workflow Other, version 3"),
        ({"agent": "reader", "optional": True, "outputs": False}, "reader, optional, no outputs"),
    ],
)
def test_a_step_is_drawn_with_what_it_does(step: dict[str, Any], note: str) -> None:
    (node,) = step_nodes([{"step": "one", **step}])
    assert (node.title, node.note) == ("one", note)
