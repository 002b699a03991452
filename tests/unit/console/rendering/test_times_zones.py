from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from console.rendering.times import zone_named, zone_names


def test_utc_comes_first_among_the_zones_of_regions() -> None:
    names = zone_names()
    assert names[0] == "UTC"
    assert {"Europe/Berlin", "Asia/Kolkata"} < set(names)
    assert not [name for name in names[1:] if "/" not in name]


@pytest.mark.parametrize("name", ["", "../UTC", "EST5EDT", "Etc/GMT+1", "\0"])
def test_any_other_name_means_utc(name: str) -> None:
    assert zone_named(name) is UTC


def test_a_name_means_its_zone() -> None:
    assert zone_named("Europe/Berlin") == ZoneInfo("Europe/Berlin")
