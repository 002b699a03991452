"""Forms in which people write names, dates, addresses, numbers and secrets, and what only looks like them."""

import pytest

from redaction.entity_types import ENTITY_TYPES
from redaction.redactor import Redactor
from redaction.rules.labels import label_entities, plain_label
from redaction.search.finder import Finder
from tests.unit.redaction.conftest import engine_of


@pytest.fixture(scope="module")
def finder() -> Finder:
    return Finder(ENTITY_TYPES, 0.8)


@pytest.fixture(scope="module")
def engine() -> Redactor:
    return engine_of()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("saw Mr R. Patel today", "R. Patel"),
        ("for Ms O'Connor only", "O'Connor"),
        ("with Dr McDonald", "McDonald"),
        ("an Herrn Karl Weber gesandt", "Karl Weber"),
        ("la señora García dijo", "García"),
        ("Pani Anna Nowak", "Anna Nowak"),
        ("Mr 王小明 x", "王小明"),
        ("Dr. Иванов wrote", "Иванов"),
        ("Dr. Élodie Beaumont-N'Diaye", "Élodie Beaumont-N'Diaye"),
        ("Name: JOHN SMITH", "JOHN SMITH"),
        ("name=Jane Doe", "Jane Doe"),
        ("x surname=Abelung y", "Abelung"),
        ("x\nAgent (Jane): hello", "Jane"),
        ("Name: Doe, Jane", "Doe, Jane"),
        ("x\nWILLIAMS, Tyrone\n", "WILLIAMS, Tyrone"),
        ("Kunde: Anna Schmidt", "Anna Schmidt"),
        ("Nom : DUPONT", "DUPONT"),
        ("Imię i nazwisko: Łukasz Żak", "Łukasz Żak"),
        ("Titolare e intestatario: Mario Rossi", "Mario Rossi"),
        ("my name is Ann Lee and", "Ann Lee"),
        ("[09:12] Anna: hi", "Anna"),
        ("Hola Juan:\n", "Juan"),
    ],
)
def test_a_name_is_known_by_what_stands_around_it(finder: Finder, text: str, name: str) -> None:
    assert [(match.entity, text[match.start : match.end]) for match in finder.find(text)] == [("PERSON", name)]


def test_names_before_addresses_of_a_mail_are_found(engine: Redactor) -> None:
    swept = engine.text('To: "Doe, Jane" <jane@x.org>, Bob van Ray <b@x.org>, Sales Team <s@x.org>')
    assert swept == 'To: "[PERSON]" <[EMAIL_ADDRESS]>, [PERSON] <[EMAIL_ADDRESS]>, Sales Team <[EMAIL_ADDRESS]>'


def test_a_name_is_found_again_in_the_same_document(engine: Redactor) -> None:
    assert engine.text("Kowalska called.\nDear Anna Kowalska,\nAnna") == "[PERSON] called.\nDear [PERSON],\n[PERSON]"
    assert engine.text("Kowalska called.") == "Kowalska called."
    value = {"first_name": "Annabel", "note": "Annabel wrote to Anna"}
    assert engine.value(value) == {"first_name": "[PERSON]", "note": "[PERSON] wrote to Anna"}


@pytest.mark.parametrize(
    ("text", "swept"),
    [
        ("Signed: P. Marlow\nPaula Marlow paid", "Signed: [PERSON]\n[PERSON] paid"),
        ("Dear Mr Marlow,\nof J. P. Marlow", "[PERSON],\nof [PERSON]"),
        ("Signed: P. Marlow\nand by Rita Marlow", "Signed: [PERSON]\nand by [PERSON]"),
        ("Signed: P. Marlow\nThen Marlow paid", "Signed: [PERSON]\nThen [PERSON] paid"),
        ("Signed: P. Marlow\nthe Customer Marlow", "Signed: [PERSON]\nthe Customer [PERSON]"),
    ],
)
def test_a_family_name_found_again_takes_what_stands_before_it(engine: Redactor, text: str, swept: str) -> None:
    assert engine.text(text).removeprefix("Dear ") == swept


@pytest.mark.parametrize(
    "line",
    [
        "02.04.2025 10:11:12 [INFO] started",
        "12/03/2025 14:22:01 INFO started",
        "Nov 23 18:00:01 host started",
        "Nov 23 2025 18:00:01 host started",
        "Date: Mon, 23 Nov 2026 10:11:12 +0100",
        "Received: from a by b; Mon, 23 Nov 2026 10:11:12 +0100",
    ],
)
def test_times_of_logs_and_headers_stay(engine: Redactor, line: str) -> None:
    assert engine.text(line) == line


def test_a_part_of_a_name_that_is_a_word_of_the_document_stays(engine: Redactor) -> None:
    assert engine.text("Mr Tom Brown\nBrown shoes are brown") == "Mr [PERSON]\nBrown shoes are brown"


@pytest.mark.parametrize(
    ("text", "entity", "value"),
    [
        ("geboren am 3. März 1975", "DATE_TIME", "3. März 1975"),
        ("née le 14 juillet 1980", "DATE_TIME", "14 juillet 1980"),
        ("nací el 5 de mayo de 1991", "DATE_TIME", "5 de mayo de 1991"),
        ("am 1er août 1999", "DATE_TIME", "1er août 1999"),
        ("ur. 7 września 1968", "DATE_TIME", "7 września 1968"),
        ("au 06 12 34 56 78 le", "PHONE_NUMBER", "06 12 34 56 78"),
        ("unter 030/23125 123 oder", "PHONE_NUMBER", "030/23125 123"),
        ("mi móvil es 612 345 678", "PHONE_NUMBER", "612 345 678"),
        ("card 1234 5678 9012 3452", "CREDIT_CARD", "1234 5678 9012 3452"),
        ("in der Lange Straße 12 wohnt", "LOCATION", "Lange Straße 12"),
        ("au 12, rue de la Paix\n", "LOCATION", "12, rue de la Paix"),
        ("vive en Calle de Alcalá 45", "LOCATION", "Calle de Alcalá 45"),
        ("x\n10115 Berlin\n", "LOCATION", "10115 Berlin"),
        ("to Springfield, IL 62704", "LOCATION", "Springfield, IL 62704"),
        ("Steuer-ID 36 574 261 809", "DE_TAX_ID", "36 574 261 809"),
        ("2 95 10 99 126 111 93", "FR_NIR", "2 95 10 99 126 111 93"),
        ("880320-0016", "SE_PERSONNUMMER", "880320-0016"),
        ("PPS number 6433435F", "IE_PPS", "6433435F"),
        ("BSN 111222333", "NL_BSN", "111222333"),
        ("contribuinte 501964843", "PT_NIF", "501964843"),
        ("390.533.447-05", "BR_CPF", "390.533.447-05"),
        ("AKIAIOSFODNN7EXAMPLE", "SECRET", "AKIAIOSFODNN7EXAMPLE"),
        ("ghp_" + "a1B2" * 9, "SECRET", "ghp_" + "a1B2" * 9),
        ("postgres://app:S3cr3tPw@db/x", "SECRET", "S3cr3tPw"),
        ("password = 'hunter2!x'", "SECRET", "hunter2!x"),
        ("Authorization: Bearer abcdef123456", "SECRET", "abcdef123456"),
    ],
)
def test_a_value_is_found_in_the_forms_of_its_country(finder: Finder, text: str, entity: str, value: str) -> None:
    assert [(match.entity, text[match.start : match.end]) for match in finder.find(text)] == [(entity, value)]


@pytest.mark.parametrize(
    "text",
    [
        "The call took 1234567 ms",
        "Version 2.11.0.4 and version=2.11.0.4",
        "Contact: Sales Team",
        "write to info@example.org or support@example.org",
        "2025-03-11 08:15:02,120 INFO started",
        "[2025-03-11T08:15:02Z] ready",
        "Dear Customer,",
        "[09:12] Error: none",
        "Copyright 1998, 1999 Free Software",
        "password: required, secret: inbox-key, token = tokens[0]",
        "Boston, 02110-1301",
        "step 880320-0017",
        "12 New Points",
        "[name]: Default",
    ],
)
def test_what_is_nobodys_stays_readable(engine: Redactor, text: str) -> None:
    assert engine.text(text) == text


def test_columns_are_known_in_several_languages() -> None:
    for entity, labels in {
        "PERSON": ("Nachname", "prénom", "apellidos", "cognome", "achternaam", "nazwisko", "Kunde"),
        "LOCATION": ("Ort", "Anschrift", "adresse", "ciudad", "indirizzo", "woonplaats", "cidade", "miasto"),
        "DATE_TIME": ("Geburtsdatum", "date de naissance", "fecha de nacimiento", "data di nascita"),
        "SECRET": ("api_key", "Passwort", "accessToken"),
    }.items():
        for label in labels:
            assert (entity, 0.85) in label_entities(plain_label(label)), label


def test_a_name_under_a_label_of_people_or_things_is_found(engine: Redactor) -> None:
    value = [{"name": "Jane Doe"}, {"name": "widget"}, {"customer": "Doe, Jane"}, {"contact": "Sales Team"}]
    swept = [{"name": "[PERSON]"}, {"name": "widget"}, {"customer": "[PERSON]"}, {"contact": "Sales Team"}]
    assert engine.value(value) == swept
