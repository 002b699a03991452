import re
from concurrent.futures import ThreadPoolExecutor

from backend.common.ids import new_id


def test_ids_have_a_prefix_and_26_characters_of_the_ulid_alphabet() -> None:
    assert re.fullmatch(r"run_[0-9abcdefghjkmnpqrstvwxyz]{26}", new_id("run"))


def test_ids_rise_within_a_process_also_within_a_millisecond() -> None:
    made = [new_id("run") for _ in range(10_000)]
    assert made == sorted(set(made))


def test_threads_never_get_the_same_id() -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: [new_id("run") for _ in range(1000)], range(8)))
    assert len({each for part in made for each in part}) == 8000
