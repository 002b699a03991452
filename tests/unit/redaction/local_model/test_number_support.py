"""Numbers that the local model names count only where a word or their form says that they are those of people."""

import pytest

from redaction.local_model.number_support import is_supported, names_numbers
from redaction.local_model.weighed_words import Word


def supported(text: str, number: str, entity: str) -> bool:
    start = text.rindex(number)
    return is_supported(text, Word(start, start + len(number), entity, 0.9))


@pytest.mark.parametrize(
    ("text", "number", "entity"),
    [
        ("Order 4500012345 was shipped.", "4500012345", "US_SSN"),
        ("The query took 4155550199 ns", "4155550199", "US_ITIN"),
        ("patient file of 2147483648 bytes", "2147483648", "US_SSN"),
        ("uuid 8f14e45f-ceea-467f-9575-1f2d7c3a2b10", "8f14e45f-ceea-467f-9575-1f2d7c3a2b10", "US_SSN"),
        ("commit 9e107d9d372bb6826bd81d3542a419d6", "9e107d9d372bb6826bd81d3542a419d6", "US_DRIVER_LICENSE"),
        ("passport, 9e107d9d372bb6826bd81d3542a419d6", "9e107d9d372bb6826bd81d3542a419d6", "US_PASSPORT"),
        ("Numero di serie 4410020031", "4410020031", "US_DRIVER_LICENSE"),
        ("Bestellnummer 9000123456", "9000123456", "US_ITIN"),
        ("Zam\u00f3wienie nr 4500112233", "4500112233", "US_SSN"),
        ("o pedido 4500778812", "4500778812", "US_SSN"),
        ("USt-IdNr. DE136695976", "DE136695976", "US_SSN"),
        ("order id: 99120331", "99120331", "US_SSN"),
        ("heap 2147483648", "2147483648", "PHONE_NUMBER"),
        ("Windows 10.0.19045.4412", "10.0.19045.4412", "PHONE_NUMBER"),
        ("Ticket 20240319-0712345", "20240319-0712345", "PHONE_NUMBER"),
        ("Article 11045-2209", "11045-2209", "PHONE_NUMBER"),
        ("a 4155550199", "4155550199", "PHONE_NUMBER"),
        ("nummer 116", "116", "LOCATION"),
    ],
)
def test_other_numbers_are_not_supported(text: str, number: str, entity: str) -> None:
    assert not supported(text, number, entity)


@pytest.mark.parametrize(
    ("text", "number", "entity"),
    [
        ("her passport no. C01X00T47", "C01X00T47", "US_PASSPORT"),
        ("order 4711 for licence D1234567", "D1234567", "US_DRIVER_LICENSE"),
        ("Personalausweis: L01X00T47", "L01X00T47", "US_SSN"),
        ("Dow\u00f3d osobisty\nABC123456", "ABC123456", "US_SSN"),
        ("12345678 (DNI)", "12345678", "US_ITIN"),
        ("ID card no. 771234567", "771234567", "US_SSN"),
        ("id: 771234567", "771234567", "US_SSN"),
        ("Kontonummer 4410020031", "4410020031", "US_BANK_NUMBER"),
        ("appelle au 0612345678", "0612345678", "US_SSN"),
        ("mobile: 4155550199", "4155550199", "PHONE_NUMBER"),
        ("it is 555 019 2288", "555 019 2288", "PHONE_NUMBER"),
        ("it is 0612345678", "0612345678", "PHONE_NUMBER"),
        ("it is +44 1632 960001", "+44 1632 960001", "PHONE_NUMBER"),
        ("it is 420.878.8953x19175", "420.878.8953x19175", "PHONE_NUMBER"),
        ("it is (02764) 82078", "82078", "PHONE_NUMBER"),
        ("it is +33 (0)3 88 08 42 30", "3 88 08 42 30", "PHONE_NUMBER"),
        ("it is 0400968664", "0400968664", "US_DRIVER_LICENSE"),
        ("postcode 37073", "37073", "LOCATION"),
    ],
)
def test_numbers_beside_what_names_them_are_supported(text: str, number: str, entity: str) -> None:
    assert supported(text, number, entity)


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("Name Telefon", "Telefon", True),
        ("Zg\u0142oszenie nr 7781", "Zg\u0142oszenie", True),
        ("Price rang 7781", "Price", False),
        ("Callum rang", "Callum", False),
    ],
)
def test_words_that_name_numbers_are_no_names(text: str, word: str, expected: bool) -> None:
    start = text.index(word)
    assert names_numbers(text, Word(start, start + len(word), "PERSON", 0.9)) is expected
