from backend.common.errors import id_not_found_message, not_found_message, suggestion


def test_names_that_come_close_are_told_whatever_their_case() -> None:
    known = ["Contract digest", "Rooms", "Invoices"]
    assert not_found_message("workflow", "contract digst", known) == (
        "There is no workflow named contract digst. Did you mean Contract digest?"
    )
    assert not_found_message("workflow", "zebra", known) == "There is no workflow named zebra."


def test_a_name_in_the_place_of_an_id_is_told_with_the_id() -> None:
    assert id_not_found_message("key", "digest-bot", {"ak_1": "digest-bot", "ak_2": "other"}) == (
        "There is no key digest-bot. Did you mean digest-bot (ak_1)?"
    )


def test_very_long_names_and_very_many_are_not_compared() -> None:
    assert suggestion("reader" * 30, ["reader" * 30]) == ""
    assert suggestion("reader", [*map(str, range(1_000)), "reader"]) == ""
