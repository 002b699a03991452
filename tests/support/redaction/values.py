"""Generates valid but invented values of each entity type from a seeded generator; independent of the rules."""

import hashlib
import random
import string
from collections.abc import Callable, Sequence

FIRST = (
    *("Jane", "Maria", "Ahmed", "Wei", "Olu", "Priya", "J\u00fcrgen", "S\u00f8ren", "Chlo\u00e9", "Jos\u00e9"),
    *("Anna", "Tom", "Grace", "Ivan", "Yuki", "Fatima", "Liam", "Noor", "Eva", "Paul"),
)
LAST = (
    *("Doe", "M\u00fcller", "Okafor", "Nguyen", "Smith", "Garc\u00eda", "Rossi", "Kowalski", "Tanaka", "Singh"),
    *("Haddad", "O'Brien", "Jansen", "Brown", "Silva", "Novak"),
)
_DOMAINS = ("example.org", "example.com", "mail.example.net", "corp.example.co.uk", "beispiel.example.de")
_STREETS = ("Oak", "Maple", "High", "Station", "Church", "Mill", "Victoria", "King")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def _digits(rng: random.Random, count: int, first: str = string.digits) -> str:
    return rng.choice(first) + "".join(rng.choices(string.digits, k=count - 1))


def _letters(rng: random.Random, count: int, alphabet: str = string.ascii_uppercase) -> str:
    return "".join(rng.choices(alphabet, k=count))


def _luhn_digit(number: str) -> str:
    total = sum(int(d) if i % 2 else sum(divmod(2 * int(d), 10)) for i, d in enumerate(reversed(number)))
    return str(-total % 10)


def _until(make: Callable[[], str], valid: Callable[[str], bool]) -> str:
    while not valid(made := make()):
        pass
    return made


def _sum(number: str, weights: Sequence[int]) -> int:
    return sum(int(d) * w for d, w in zip(number, weights, strict=True))


def card(rng: random.Random) -> str:
    number = rng.choice(["4", "51", "55", "2221", "6011"])
    number += _digits(rng, 15 - len(number))
    number += _luhn_digit(number)
    return rng.choice(["{}{}{}{}", "{} {} {} {}", "{}-{}-{}-{}"]).format(*(number[i : i + 4] for i in range(0, 16, 4)))


def iban(rng: random.Random) -> str:
    country, body = rng.choice(
        [
            ("DE", _digits(rng, 18)),
            ("GB", _letters(rng, 4) + _digits(rng, 14)),
            ("NL", _letters(rng, 4) + _digits(rng, 10)),
        ]
    )
    check = 98 - int("".join(str(int(c, 36)) for c in body + country + "00")) % 97
    text = f"{country}{check:02d}{body}"
    return text if rng.random() < 0.5 else " ".join(text[i : i + 4] for i in range(0, len(text), 4))


def email(rng: random.Random) -> str:
    first, last = rng.choice(FIRST).lower(), rng.choice(LAST).lower().replace("'", "")
    return f"{first}{rng.choice(['.', '_', '', '+x.'])}{last}{rng.choice(['', '7', '1984'])}@{rng.choice(_DOMAINS)}"


def phone(rng: random.Random) -> str:
    area, middle, line = _digits(rng, 3, "23456789"), _digits(rng, 3, "23456789"), _digits(rng, 4)
    return rng.choice(
        [
            f"+1 {area} {middle} {line}",
            f"({area}) {middle}-{line}",
            f"{area}-{middle}-{line}",
            f"{area}.{middle}.{line}",
            f"+44 20 {_digits(rng, 4)} {_digits(rng, 4)}",
            f"+49 {_digits(rng, 3, '123')} {_digits(rng, 7)}",
            f"+33{_digits(rng, 9, '67')}",
            f"020 {_digits(rng, 4, '78')} {_digits(rng, 4)}",
            f"0{_digits(rng, 3, '123456789')}/{_digits(rng, 7)}",
        ]
    )


def ip(rng: random.Random) -> str:
    if rng.random() < 0.3:
        return ":".join(f"{rng.randrange(1, 65536):x}" for _ in range(4)) + "::" + f"{rng.randrange(1, 65536):x}"
    return f"{rng.randrange(10, 224)}." + ".".join(str(rng.randrange(256)) for _ in range(3))


def bitcoin(rng: random.Random) -> str:
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    payload = b"\0" + rng.randbytes(20)
    payload += hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4]
    number, text = int.from_bytes(payload, "big"), ""
    while number:
        number, place = divmod(number, 58)
        text = alphabet[place] + text
    text = "1" + text
    return text if len(text) >= 26 else bitcoin(rng)


def date(rng: random.Random) -> str:
    year, month, day = rng.randrange(1940, 2026), rng.randrange(1, 13), rng.randrange(1, 29)
    name = _MONTHS[month - 1]

    return rng.choice(
        [
            f"{year}-{month:02d}-{day:02d}",
            f"{day:02d}/{month:02d}/{year}",
            f"{day} {name} {year}",
            f"{name} {day}, {year}",
            f"{year}-{month:02d}-{day:02d}T08:15:00Z",
        ]
    )


def ssn(rng: random.Random) -> str:
    return f"{rng.randrange(1, 666):03d}-{rng.randrange(1, 100):02d}-{rng.randrange(1, 10000):04d}"


def nhs(rng: random.Random) -> str:
    def valid(number: str) -> bool:
        return (11 - _sum(number[:9], range(10, 1, -1)) % 11) % 11 == int(number[9])

    number = _until(lambda: _digits(rng, 10, "4679"), valid)
    return f"{number[:3]} {number[3:6]} {number[6:]}"


def tfn(rng: random.Random) -> str:
    number = _until(lambda: _digits(rng, 9), lambda n: _sum(n, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0)
    return f"{number[:3]} {number[3:6]} {number[6:]}"


def abn(rng: random.Random) -> str:
    weights = (10, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19)
    number = _until(lambda: _digits(rng, 11, "123456789"), lambda n: (_sum(n, weights) - 10) % 89 == 0)
    return f"{number[:2]} {number[2:5]} {number[5:8]} {number[8:]}"


def pesel(rng: random.Random) -> str:
    number = f"{rng.randrange(40, 99)}{rng.randrange(1, 13):02d}{rng.randrange(1, 29):02d}{_digits(rng, 4)}"
    return number + str(-_sum(number, (1, 3, 7, 9) * 2 + (1, 3)) % 10)


def nif(rng: random.Random) -> str:
    number = rng.randrange(10_000_000, 99_999_999)
    return f"{number}{'TRWAGMYFPDXBNJZSQVHLCKE'[number % 23]}"


def hetu(rng: random.Random) -> str:
    born, number = f"{rng.randrange(1, 29):02d}{rng.randrange(1, 13):02d}{rng.randrange(30, 99)}", rng.randrange(2, 900)
    return f"{born}-{number:03d}{'0123456789ABCDEFHJKLMNPRSTUVWXY'[int(f'{born}{number:03d}') % 31]}"


def thai(rng: random.Random) -> str:
    number = _digits(rng, 12, "12345")
    return number + str((11 - _sum(number, range(13, 1, -1)) % 11) % 10)


def address(rng: random.Random) -> str:
    return f"{rng.randrange(1, 999)} {rng.choice(_STREETS)} {rng.choice(['Street', 'Road', 'Avenue', 'Lane'])}"


def name(rng: random.Random) -> str:
    return f"{rng.choice(FIRST)} {rng.choice(LAST)}"


def signature(rng: random.Random) -> str:
    first, last = rng.choice(FIRST), rng.choice(LAST)
    return rng.choice([f"{first} {last}", f"{first} {last}", f"{first[0]}. {last}", f"{first} M. {last}", first])


# By entity type, with a position where it matters: the generator of a value, and words that often precede it.
MAKERS: dict[str, tuple[Callable[[random.Random], str], str]] = {
    "CREDIT_CARD": (card, "card number"),
    "CRYPTO": (bitcoin, "wallet"),
    "DATE_TIME": (date, "date of birth"),
    "EMAIL_ADDRESS": (email, "e-mail"),
    "IBAN_CODE": (iban, "IBAN"),
    "IP_ADDRESS": (ip, "IP"),
    "LOCATION": (address, "address"),
    "MAC_ADDRESS": (lambda rng: ":".join(f"{rng.randrange(256):02x}" for _ in range(6)), "MAC"),
    "PERSON": (name, "name"),
    "PERSON below a closing": (signature, ""),
    "PHONE_NUMBER": (phone, "phone"),
    "URL": (
        lambda rng: f"https://{rng.choice(_DOMAINS)}/u/{rng.randrange(9999)}?q={rng.choice(FIRST).lower()}",
        "profile",
    ),
    "AU_ABN": (abn, "ABN"),
    "AU_TFN": (tfn, "TFN"),
    "ES_NIF": (nif, "NIF"),
    "FI_PERSONAL_IDENTITY_CODE": (hetu, "HETU"),
    "IN_PAN": (lambda rng: _letters(rng, 3) + "P" + _letters(rng, 1) + _digits(rng, 4) + _letters(rng, 1), "PAN"),
    "PL_PESEL": (pesel, "PESEL"),
    "TH_TNIN": (thai, "national ID"),
    "UK_NHS": (nhs, "NHS number"),
    "UK_NINO": (
        lambda rng: (
            f"{_letters(rng, 1, 'ABCEHJ')}{_letters(rng, 1, 'ABCEHJ')}{_digits(rng, 6)}{_letters(rng, 1, 'ABCD')}"
        ),
        "NI number",
    ),
    "US_BANK_NUMBER": (lambda rng: _digits(rng, rng.choice([9, 10, 12]), "123456789"), "account number"),
    "US_DRIVER_LICENSE": (lambda rng: _letters(rng, 1) + _digits(rng, 7), "driver's license"),
    "DE_ID_CARD": (lambda rng: f"L{_digits(rng, 8, '0123456789')}", "Personalausweis"),
    "DE_PASSPORT": (lambda rng: f"C{_digits(rng, 8, '0123456789')}", "Reisepass"),
    "US_PASSPORT": (lambda rng: _digits(rng, 9, "123456789"), "passport number"),
    "US_SSN": (ssn, "SSN"),
}
