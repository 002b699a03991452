import random
import re
from graphlib import CycleError
from itertools import pairwise

import pytest

from console.rendering.dag import (
    BOX_HEIGHT,
    BOX_WIDTH,
    MAX_TITLE_CELLS,
    MOST_LINE_CHARS,
    Box,
    Drawing,
    Node,
    draw,
    layers,
    shortened,
)


def nodes(**needs: str) -> list[Node]:
    return [Node(step, f"Step {step}", needed.split()) for step, needed in needs.items()]


def box_of(drawing: Drawing, step: str) -> Box:
    (box,) = (box for box in drawing.boxes if box.node.step == step)
    return box


def random_steps(seed: int, count: int = 20) -> list[Node]:
    chance = random.Random(seed)
    steps = [f"s{index}" for index in range(count)]
    made = [Node(step, step, [e for e in steps[:index] if chance.random() < 0.3]) for index, step in enumerate(steps)]
    chance.shuffle(made)
    return made


@pytest.mark.parametrize("seed", range(20))
def test_every_step_and_every_need_is_drawn_once(seed: int) -> None:
    steps = random_steps(seed)
    drawing = draw(steps)
    assert [box.node for box in drawing.boxes] == steps
    needs = [(need, node.step) for node in steps for need in node.needs]
    assert sorted((line.source, line.target) for line in drawing.lines) == sorted(needs)


@pytest.mark.parametrize("seed", range(20))
def test_a_step_is_right_of_every_step_that_it_needs(seed: int) -> None:
    drawing = draw(random_steps(seed))
    for line in drawing.lines:
        assert box_of(drawing, line.source).x + BOX_WIDTH < box_of(drawing, line.target).x


@pytest.mark.parametrize("seed", range(20))
def test_boxes_do_not_touch_and_lie_within_the_drawing(seed: int) -> None:
    drawing = draw(random_steps(seed))
    taken: list[Box] = []
    for box in drawing.boxes:
        assert 0 <= box.x <= drawing.width - BOX_WIDTH
        assert 0 <= box.y <= drawing.height - BOX_HEIGHT
        assert not [other for other in taken if other.x == box.x and abs(other.y - box.y) < BOX_HEIGHT]
        taken.append(box)


def test_a_line_runs_from_the_right_of_one_box_to_the_left_of_another() -> None:
    drawing = draw(nodes(a="", b="a"))
    (line,) = drawing.lines
    a, b = box_of(drawing, "a"), box_of(drawing, "b")
    assert line.path.startswith(f"M{a.x + BOX_WIDTH} {a.y + BOX_HEIGHT // 2}C")
    assert line.path.endswith(f" {b.x} {b.y + BOX_HEIGHT // 2}")


def test_a_long_line_passes_between_the_boxes() -> None:
    drawing = draw(nodes(a="", b="a", c="a b"))
    (line,) = (line for line in drawing.lines if (line.source, line.target) == ("a", "c"))
    between = box_of(drawing, "b")
    passed = int(line.path.split("H")[0].rpartition(" ")[2])
    assert not between.y <= passed <= between.y + BOX_HEIGHT


def test_lines_of_two_chains_do_not_cross_in_any_order_of_the_steps() -> None:
    drawing = draw(nodes(a="", b="", c="b", d="a"))
    above = box_of(drawing, "a").y < box_of(drawing, "b").y
    assert (box_of(drawing, "d").y < box_of(drawing, "c").y) == above


def test_the_same_steps_are_drawn_the_same() -> None:
    assert draw(random_steps(7)) == draw(random_steps(7))


def test_a_step_is_as_far_left_as_its_needs_allow() -> None:
    assert layers({"a": [], "b": ["a"], "c": ["b"], "d": ["a"]}) == {"a": 0, "b": 1, "d": 1, "c": 2}


def test_circular_needs_are_refused() -> None:
    with pytest.raises(CycleError):
        draw(nodes(a="b", b="a"))


def test_unknown_needs_are_ignored_and_repeated_ones_drawn_once() -> None:
    drawing = draw(nodes(a="", b="a gone a"))
    assert [(line.source, line.target) for line in drawing.lines] == [("a", "b")]


def test_nothing_is_drawn_of_no_steps() -> None:
    assert not draw([]).boxes


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Short", "Short"),
        ("x" * MAX_TITLE_CELLS, "x" * MAX_TITLE_CELLS),
        ("x" * (MAX_TITLE_CELLS + 1), "x" * (MAX_TITLE_CELLS - 1) + "…"),
        ("契" * 11, "契" * 9 + "…"),
        ("契" * 10, "契" * 10),
    ],
)
def test_a_title_is_shortened_to_fit_its_box(text: str, shown: str) -> None:
    assert shortened(text, MAX_TITLE_CELLS) == shown


def test_lines_that_others_imply_are_left_out_where_all_are_too_many() -> None:
    names = [f"s{number}" for number in range(40)]
    drawing = draw([Node(name, name, names[:place]) for place, name in enumerate(names)])
    assert [(line.source, line.target) for line in drawing.lines] == list(pairwise(names))
    assert drawing.lines_left_out == 40 * 39 // 2 - 39


def test_lines_stay_within_their_bound() -> None:
    first, second = [f"a{number}" for number in range(20)], [f"b{number}" for number in range(20)]
    drawing = draw([*(Node(name, name, ()) for name in first), *(Node(name, name, first) for name in second)])
    assert sum(len(line.path) for line in drawing.lines) < MOST_LINE_CHARS
    assert len(drawing.lines) + drawing.lines_left_out == 400
    assert drawing.lines_left_out > 0


@pytest.mark.parametrize("seed", range(20))
def test_in_bands_no_box_touches_another_and_each_line_ends_at_its_boxes(seed: int) -> None:
    drawing = draw(random_steps(seed), band=3)
    assert drawing.columns <= 3
    assert drawing.width < 3 * (BOX_WIDTH + 60)
    boxes = {box.node.step: box for box in drawing.boxes}
    assert len({(box.x, box.y) for box in boxes.values()}) == len(boxes)
    for one in boxes.values():
        assert 0 <= one.y <= drawing.height - BOX_HEIGHT
        assert not any(one.x == other.x and 0 < other.y - one.y < BOX_HEIGHT for other in boxes.values())
    for line in drawing.lines:
        source, target = boxes[line.source], boxes[line.target]
        assert line.path.startswith(f"M{source.x + BOX_WIDTH} {source.y + BOX_HEIGHT // 2}")
        assert re.search(rf"[H ]{target.x}( {target.y + BOX_HEIGHT // 2})?$", line.path)


def test_a_long_chain_in_bands_goes_on_below_from_the_left() -> None:
    drawing = draw([Node(f"s{n}", "", [f"s{n - 1}"] if n else []) for n in range(20)], band=3)
    assert len({box.x for box in drawing.boxes}) == 3
    assert len({box.y for box in drawing.boxes}) == 7
    assert [(box.y, box.x) for box in drawing.boxes] == sorted((box.y, box.x) for box in drawing.boxes)
