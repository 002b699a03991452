import importlib
import re

import pytest
import re2  # type: ignore[import-untyped]  # ships no types

from redaction.entity_types import ENTITY_TYPES
from redaction.rules.labels import label_entities, plain_label
from redaction.rules.loader import all_rules
from redaction.rules.rule import ABOVE_REACH, REACH
from redaction.search.finder import Finder
from tests.unit.redaction.every_rule import find_by_rule
from tests.unit.redaction.samples import SAMPLES

_LONGEST_BESIDE = 64
_PARSER = importlib.import_module("re._parser")


@pytest.fixture(scope="module")
def finder() -> Finder:
    return Finder(ENTITY_TYPES, 0.8)


@pytest.mark.parametrize(
    ("entity", "value"), [(entity, value) for entity, values in SAMPLES.items() for value in values]
)
def test_a_value_of_each_type_is_found_at_the_default_confidence(finder: Finder, entity: str, value: str) -> None:
    found = finder.find(f"so ({value}), and")
    assert [match.entity for match in found] == [entity]
    assert found[0].end == len(f"so ({value}")


@pytest.mark.parametrize("space", ["\u00a0", "\u2009"])
def test_odd_spaces_dashes_and_digits_hide_nothing(finder: Finder, space: str) -> None:
    wide = "".join(chr(0xFEE0 + ord(digit)) for digit in "4111111111111111")
    found = finder.find(f"4111{space}1111{space}1111{space}1111 123\u201145\u20116789 {wide}")
    assert [match.entity for match in found] == ["CREDIT_CARD", "US_SSN", "CREDIT_CARD"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("jane\u200b@exa\u00admple.org x", "jane\u200b@exa\u00admple.org"),
        ("card 4111\u200b1111 11\u200d11 1111", "4111\u200b1111 11\u200d11 1111"),
        ("so 4l11 1111 111I 1111", "4l11 1111 111I 1111"),
        ("D\u0415\u200b89370400440532013000", "D\u0415\u200b89370400440532013000"),
        ("c=%34%31%31%31111111111111 z", "%34%31%31%31111111111111"),
        ("tel=%2B49%20170%201234567", "%2B49%20170%201234567"),
        (
            "see https://x.org/?q=4111%201111%201111%201111&n=Jane%20Doe",
            "https://x.org/?q=4111%201111%201111%201111&n=Jane%20Doe",
        ),
    ],
)
def test_what_a_reader_does_not_see_hides_nothing(finder: Finder, text: str, value: str) -> None:
    assert [text[match.start : match.end] for match in finder.find(text)] == [value]


@pytest.mark.parametrize("sign", [":", ": ", ":        ", ":\t", ":\t\t", "   : ", "\t:\t", " = "])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("Name", "Jane Doe"),
        ("Kunde", "Wiebke Harmsen"),
        ("Ort", "Emden"),
        ("Address", "12 High Street"),
        ("password", "s3cr3tPa55"),
        ("姓名", "王小明"),
    ],
)
def test_a_field_of_an_aligned_form_is_found(finder: Finder, field: str, sign: str, value: str) -> None:
    text = f"{field}{sign}{value}\n"
    assert [text[match.start : match.end] for match in finder.find(text)] == [value]


def test_a_field_with_nothing_behind_it_names_nothing_on_the_next_line(finder: Finder) -> None:
    assert finder.find("City:    \nSome Heading Here\n") == []


@pytest.mark.parametrize(
    "text",
    [
        'VERSION = "2.11.0.4"',
        "APP_VERSION=2.11.0.4",
        'appVersion: "2.11.0.4"',
        '{"version":"2.11.0.4","kernel":"5.15.0.91"}',
        "Version:      2.11.0.4",
        "upgraded from 2.10.3.1 to 2.11.0.4",
        "aktualisiert Werk von 2.10.3.1 auf 2.11.0.4",
        "from version 2.10.3.1 to 2.11.0.4",
        "section 3.2.1.14 and Kapitel 3.2.1.14",
        "\xa7 3.2.1.14",
        "Chrome/125.0.0.0 Safari/537.36.10.1",
        "curl/7.81.0.1",
        "build-2.11.0.14",
    ],
)
def test_a_version_or_section_is_no_address(finder: Finder, text: str) -> None:
    assert finder.find(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "ip=93.184.216.34",
        "host: 93.184.216.34",
        "from 192.168.10.4 to 192.168.10.5",
        "server 10.20.30.40 version 2.3.4.15",
        "record updated from 192.168.10.4 to 192.168.10.5",
        "upgraded host from 93.184.216.34 to 93.184.216.35",
        "broker/10.20.30.40",
        "version 2.11.0.4 on 10.20.30.40",
        "release 10.20.30.40:8080",
        "nginx/1.25.3.12 93.184.216.34",
    ],
)
def test_an_address_beside_a_version_is_found(finder: Finder, text: str) -> None:
    found = [match.entity for match in finder.find(text)]
    assert found == ["IP_ADDRESS"] * (2 if " to " in text else 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("city='Ilkley'", "Ilkley"),
        ("User(city='Ilkley', age=3)", "Ilkley"),
        ("city='L'Aquila'", "L'Aquila"),
        ("address='12 High Street'; x='1'", "12 High Street"),
    ],
)
def test_a_quote_that_closes_a_value_stays(finder: Finder, text: str, value: str) -> None:
    assert [text[match.start : match.end] for match in finder.find(text)] == [value]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("DB_PASS=s3cr3tPa55", "s3cr3tPa55"),
        ("PASS='s3cr3tPa55'", "s3cr3tPa55"),
        ("USER_PW=abcD1234!", "abcD1234!"),
        ("REDIS_AUTH=abc9De8f7", "abc9De8f7"),
        ("PGPASSWORD=s3cr3tPa55", "s3cr3tPa55"),
        ('set PASSWORD "abc D3f!"', "abc D3f!"),
        ('password = "abc D3f!"', "abc D3f!"),
        ("curl -s -u admin:Sup3rS3cret x", "Sup3rS3cret"),
        ("mysql -u root -pS3cretPw1 db", "S3cretPw1"),
        ("run --password s3cr3tPa55", "s3cr3tPa55"),
    ],
)
def test_a_secret_that_is_assigned_is_found(finder: Finder, text: str, value: str) -> None:
    assert [(text[match.start : match.end], match.entity) for match in finder.find(text)] == [(value, "SECRET")]


@pytest.mark.parametrize(
    "text",
    [
        "PASS=true",
        "auth=none",
        "auth: oauth2-proxy",
        "AUTH=SHA-256",
        "pass: 12 of 14",
        "pass=12of14",
        "bypass=s3cr3tPa55",
        "pass_rate=0.93412",
        "auth=$TOKEN12abC",
        "$pass = !$passed",
        "auth: config.authV2Token",
        'enter the password "of the account" here',
        "docker run -p8080:80",
        "sort -u file:Name1",
        "curl -u admin x",
        "mysql -u root -p db",
    ],
)
def test_what_is_assigned_and_no_secret_is_let_through(finder: Finder, text: str) -> None:
    assert finder.find(text) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("il sig. Fumagalli arriva", "Fumagalli"),
        ("la dott.ssa Neri", "Neri"),
        ("con don Eusebio Carmona", "Eusebio Carmona"),
        ("para doña Ana Belén", "Ana Belén"),
        ("dla p. Zofia Urban", "Zofia Urban"),
        ("pani Anna Nowak", "Anna Nowak"),
        ("mój mąż Kazimierz dzwonił", "Kazimierz"),
        ("pan Jan Kowalski", "Jan Kowalski"),
        ("Mr D. Olusanya came", "D. Olusanya"),
        ("D. Eusebio Carmona", "Eusebio Carmona"),
        ("O'CONNOR, Sinéad", "O'CONNOR, Sinéad"),
        ("MCDONALD, Ewan J.", "MCDONALD, Ewan J."),
        ("for MR JANE DOE", "JANE DOE"),
        ("for MRS DOE", "DOE"),
        ("Indirizzo: via Roma 1", "via Roma 1"),
        ("Adresse: rue de la Paix 12", "rue de la Paix 12"),
        ("김철수 씨가", "김철수"),
        ("**City:** Ilkley", "Ilkley"),
        ("- **Surname** Achterberg", "Achterberg"),
        ("**Name**: Jane Doe", "Jane Doe"),
        ("first_name: Rosalind", "Rosalind"),
        ("'first_name': 'Rosalind'", "Rosalind"),
        ('{first_name: "Rosalind"}', "Rosalind"),
        ('x body={"lastName": "Achterberg", "age": 3}', "Achterberg"),
    ],
)
def test_what_names_a_person_or_place_in_other_forms_is_found(finder: Finder, text: str, value: str) -> None:
    assert [text[match.start : match.end] for match in finder.find(text)] == [value]


@pytest.mark.parametrize(
    "text",
    [
        "p. 12 and p. Summary",
        "a pan Asian Kitchen, a pan European Network",
        "MS WORD and MS SQL SERVER",
        "the MR IMAGING UNIT",
        "he will don Armour",
        "hostname: Alpha, file_name: Report, username: Admin",
        "**Note** Please read **Item:** Chair",
    ],
)
def test_what_looks_like_a_title_or_field_is_let_through(finder: Finder, text: str) -> None:
    assert finder.find(text) == []


@pytest.mark.parametrize(
    ("text", "value", "entity"),
    [
        ("born on the third of April 1971.", "third of April 1971", "DATE_TIME"),
        ("the Twelfth of June, nineteen fifty-eight", "Twelfth of June, nineteen fifty-eight", "DATE_TIME"),
        ("on the twenty-first of May two thousand and four", "twenty-first of May two thousand and four", "DATE_TIME"),
        ("am einundzwanzigsten April 1971", "einundzwanzigsten April 1971", "DATE_TIME"),
        ("so 00 44 7700 900461", "00 44 7700 900461", "PHONE_NUMBER"),
        ("so 00 33 6 12 34 56 78", "00 33 6 12 34 56 78", "PHONE_NUMBER"),
        ("Personalausweis L01X00T47", "L01X00T47", "DE_ID_CARD"),
        ("Reisepass-Nr. C01X00T478", "C01X00T478", "DE_PASSPORT"),
    ],
)
def test_a_date_or_number_in_other_forms_is_found(finder: Finder, text: str, value: str, entity: str) -> None:
    assert [(text[match.start : match.end], match.entity) for match in finder.find(text)] == [(value, entity)]


@pytest.mark.parametrize("text", ["the third of May", "00 10 20 30 40 50 60 70", "00 12 34 56 78 90 12 34"])
def test_what_is_no_whole_date_or_number_is_let_through(finder: Finder, text: str) -> None:
    assert finder.find(text) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('tel=+447700900118 HTTP/1.1" 200 2326', "+447700900118"),
        ("mobile 07700 900118, order 4500 12345", "07700 900118"),
        ("phone 07700 900118 of invoice no. 45001234", "07700 900118"),
        ("phone of the customer: 07700 900118", "07700 900118"),
    ],
)
def test_a_number_of_an_order_or_a_log_beside_a_phone_stays(finder: Finder, text: str, value: str) -> None:
    assert [text[match.start : match.end] for match in finder.find(text)] == [value]


@pytest.mark.parametrize(
    "text",
    ["1 Apple Way of doing things", "Name: Release Candidate", '"name": "Oak Table"', '"name": "Gold Plus"'],
)
def test_the_name_of_a_thing_is_let_through(finder: Finder, text: str) -> None:
    assert finder.find(text) == []


def test_a_value_of_a_rule_that_reads_numbers_has_a_digit() -> None:
    without = re.sub("[0-9]", "x", "\n".join(value for values in SAMPLES.values() for value in values))
    assert not [rule.pattern for rule in all_rules() if rule.numeric and find_by_rule(rule, without, 0.5)]


@pytest.mark.parametrize(
    "text",
    [
        "the quick brown fox, 12 of 345 and 3.14159",
        "4111 1111 1111 1112",
        "GB82 WEST 1234 5698 7654 33",
        "version 1.2.3.4 of std::vector at 12:30:45.123",
        "000-12-3456 and 666-12-3456",
        "id=1700000000 req=8f14e45fceea167a5a36dedd4bea2543",
        "call foo(1, 2) @ 3 pm, a@b, user@host",
        "999.999.10.10",
        "12345678A X1234567A S1234567A",
        "2024-13-45 and 99/99/2024",
    ],
)
def test_what_only_looks_alike_is_let_through(finder: Finder, text: str) -> None:
    assert finder.find(text) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Regards,\nAnna Kowalska", "Anna Kowalska"),
        ("See you.\r\n\r\nbest wishes,\r\n\r\nJ. Smith\r\n", "J. Smith"),
        ("Mit freundlichen Grüßen\n\ni. A. Karl Weber\nExample GmbH", "Karl Weber"),
        ("Cordialement,\nChloé Dupont, directrice", "Chloé Dupont"),
        ("Z poważaniem,\nŁukasz Żak", "Łukasz Żak"),
        ("Many thanks and kind regards\n  Dr. J. R. van der Berg - Sales", "J. R. van der Berg"),
        ("> Thanks,\n> Tom\n", "Tom"),
        ("-- \nAnna Kowalska | Example Ltd", "Anna Kowalska"),
        ('"Dear all,\nyours sincerely,\nAnna"', "Anna"),
    ],
)
def test_a_name_below_a_closing_signs(finder: Finder, text: str, name: str) -> None:
    found = finder.find(text)
    assert [(match.entity, text[match.start : match.end]) for match in found] == [("PERSON", name)]


@pytest.mark.parametrize(
    "text",
    [
        "Best regards,\nThe Support Team",
        "Sincerely,\nExample GmbH",
        "Regards,\nplease find the file below",
        "Regards,\n" + "\n" * 6 + "Anna Kowalska",
        "with regards to the\nAnna Kowalska",
        "Thanks\nBuild Status",
        "Thanks,\nHowever, it failed",
        "Thanks,\nPlease see below",
        "--\nSelect Something",
        "---\nTitle",
        "The best\nParis",
    ],
)
def test_what_stands_below_a_closing_and_signs_nothing_is_let_through(finder: Finder, text: str) -> None:
    assert finder.find(text) == []


def test_every_entity_type_has_a_rule_or_a_label() -> None:
    by_label = {entity for entity, _ in label_entities("nationality")}
    assert {rule.entity for rule in all_rules()} | by_label == ENTITY_TYPES


def test_a_score_is_at_least_what_a_policy_can_ask() -> None:
    assert all(0.5 <= rule.best_score <= 1 for rule in all_rules())


def test_a_rule_is_local() -> None:
    for rule in all_rules():
        longest = _PARSER.parse(rule.pattern).getwidth()[1]
        assert longest <= rule.longest, rule.pattern
        assert rule.longest + 2 * _LONGEST_BESIDE < REACH, rule.pattern
        assert re2.compile(rule.begins) is not None
        assert rule.begins.encode("latin-1")


def test_a_match_that_words_lift_begins_with_its_value() -> None:
    assert not [
        rule.pattern for rule in all_rules() if rule.context and (rule.widen or re.compile(rule.pattern).groups)
    ]


def test_a_rule_reads_no_further_above_than_windows_keep() -> None:
    for rule in all_rules():
        parsed = _PARSER.parse(rule.pattern)
        value = next((at for at, (_, groups) in enumerate(parsed) if isinstance(groups, tuple) and groups[0] == 1), 0)
        assert parsed[:value].getwidth()[1] < ABOVE_REACH, rule.pattern


def test_no_value_crosses_a_line_break() -> None:
    text = "\n".join(value for values in SAMPLES.values() for value in values)
    for broken in (text, re.sub(r"(?<=\w)(?=[ .-])", "\n", text), re.sub("[ .-]", "\n", text)):
        assert not [
            broken[start:end]
            for rule in all_rules()
            for start, end, _, _ in find_by_rule(rule, broken, 0.5)
            if "\n" in broken[start:end]
        ]


def test_a_column_tells_what_no_pattern_can() -> None:
    assert label_entities(plain_label("firstName")) == (("PERSON", 0.85),)
    assert label_entities(plain_label("customer_full_name")) == (("PERSON", 0.85),)
    assert label_entities(plain_label("Home-Address 2")) == (("LOCATION", 0.85),)
    assert label_entities(plain_label("filename")) == ()
    assert label_entities(plain_label("status")) == ()
