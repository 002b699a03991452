from backend.services.users.rules import address_alone, name_alone, name_and_address


def test_no_two_subjects_are_alike() -> None:
    subjects = {
        name_and_address("ana", "203.0.113.7"),
        name_and_address("bo", "203.0.113.7"),
        name_and_address("ana", "203.0.113.8"),
        name_and_address("ana", ""),
        address_alone("203.0.113.7"),
        address_alone(""),
        name_alone("ana"),
        name_alone("203.0.113.7"),
    }
    assert len(subjects) == 8


def test_the_addresses_of_one_ipv6_network_are_one_subject() -> None:
    assert address_alone("2001:db8::1") == address_alone("2001:db8::ffff:1")
    assert address_alone("2001:db8::1") != address_alone("2001:db8:0:1::1")


def test_what_was_typed_is_not_kept() -> None:
    assert "correct-horse" not in name_and_address("correct-horse", "203.0.113.7") + name_alone("correct-horse")
