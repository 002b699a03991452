from backend.close_names import no_such, no_such_id


def test_names_that_come_close_are_told_whatever_their_case() -> None:
    known = ["Contract digest", "Rooms", "Invoices"]
    assert no_such("workflow", "contract digst", known) == (
        "There is no workflow named contract digst. Did you mean Contract digest?"
    )
    assert no_such("workflow", "zebra", known) == "There is no workflow named zebra."


def test_a_name_in_the_place_of_an_id_is_told_with_the_id() -> None:
    assert no_such_id("key", "digest-bot", {"ak_1": "digest-bot", "ak_2": "other"}) == (
        "There is no key digest-bot. Did you mean digest-bot (ak_1)?"
    )
