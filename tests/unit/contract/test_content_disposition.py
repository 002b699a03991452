import pytest

from contract.content_disposition import content_disposition


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a b.txt", "attachment; filename=\"a b.txt\"; filename*=UTF-8''a%20b.txt"),
        ('a"b\\c%.txt', "attachment; filename=\"a_b_c_.txt\"; filename*=UTF-8''a%22b%5Cc%25.txt"),
        ("réunion é.txt", "attachment; filename=\"r_union _.txt\"; filename*=UTF-8''r%C3%A9union%20%C3%A9.txt"),
        ("a\r\nSet-Cookie: x", "attachment; filename=\"a__Set-Cookie: x\"; filename*=UTF-8''a%0D%0ASet-Cookie%3A%20x"),
        ("", "attachment; filename=\"\"; filename*=UTF-8''"),
    ],
)
def test_a_file_name_travels_in_both_forms(name: str, expected: str) -> None:
    assert content_disposition(name) == expected
