"""Values of texts with names (YAML, SQL, vCard and alike) are found by these, and the texts stay what they are."""

import base64
import tomllib

import pytest
import yaml

from redaction.redactor import Redactor
from tests.unit.redaction.conftest import EveryWord, SweepFile, engine_of

MAIL = "jane.roe@example.com"
IN_BASE64 = base64.b64encode(MAIL.encode()).decode()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "a.ini",
            "[client]\nsurname = Roe ; of 1\ncity: Oakton\n",
            "[client]\nsurname = [PERSON] ; of 1\ncity: [LOCATION]\n",
        ),
        (".env", "export SURNAME='Roe'\n", "export SURNAME='[PERSON]'\n"),
        ("a.properties", "a.mail=jane.roe\\u0040example.com\n", "a.mail=[EMAIL_ADDRESS]\n"),
        (
            "a.md",
            "| surname | id |\n|---|---|\n| **Roe** | 1 |\n\n| Doe | 2 |",
            "| surname | id |\n|---|---|\n| **[PERSON]** | 1 |\n\n| Doe | 2 |",
        ),
        ("a.vcf", "N:Roe;Jane;;;\nBDAY:19900102\n", "N:[PERSON];[PERSON];;;\nBDAY:[DATE_TIME]\n"),
        ("a.vcf", "PHOTO;ENCODING=b:AAEC\n AwQ=\nEMAIL:a@roe.co\n", "PHOTO;ENCODING=b:\nEMAIL:[EMAIL_ADDRESS]\n"),
        (
            "a.vcf",
            "NOTE;ENCODING=QUOTED-PRINTABLE:to jane=40=\nroe.co\n",
            "NOTE;ENCODING=QUOTED-PRINTABLE:to [EMAIL_ADDRESS]\n",
        ),
        (
            "a.ics",
            'ATTENDEE;CN="Roe, Jane":mailto:a@roe.co\nDESCRIPTION:a@ro\n e.co\n',
            'ATTENDEE;CN="[PERSON]":mailto:EMAIL_ADDRESS@redacted.invalid\nDESCRIPTION:[EMAIL_ADDRESS]\n',
        ),
        (
            "a.ldif",
            f"dn: cn=Jane Roe,c=x\nmail:: {IN_BASE64}\n",
            f"dn: cn=[PERSON],c=x\nmail:: {base64.b64encode(b'[EMAIL_ADDRESS]').decode()}\n",
        ),
        (
            "a.sql",
            "INSERT INTO `t` (id, surname, n)\nVALUES (1, 'O''Roe', f(2)),\n(2, 'Doe', 3);",
            "INSERT INTO `t` (id, surname, n)\nVALUES (1, '[PERSON]', f(2)),\n(2, '[PERSON]', 3);",
        ),
        (
            "a.sql",
            "CREATE TABLE t (\n id int,\n surname text\n);\nINSERT INTO t VALUES (1, 'Roe');",
            "CREATE TABLE t (\n id int,\n surname text\n);\nINSERT INTO t VALUES (1, '[PERSON]');",
        ),
        (
            "a.sql",
            "COPY t (id, surname) FROM stdin;\n1\tRoe\n\\.\n",
            "COPY t (id, surname) FROM stdin;\n1\t[PERSON]\n\\.\n",
        ),
        (
            "a.csv",
            'id,payload\n1,"{""surname"": ""Roe"", ""n"": 1}"\n',
            'id,payload\n1,"{""surname"": ""[PERSON]"", ""n"": 1}"\n',
        ),
        (
            "a.html",
            "<table><tr><th>Surname<th>Id</tr><tr><td><b>Roe</b><td>1</table>",
            "<table><tr><th>Surname<th>Id</tr><tr><td><b>[PERSON]</b><td>1</table>",
        ),
        (
            "a.html",
            "<table><tr><td>Surname</td><td>Roe</td></tr><tr><td>City</td><td>Oakton</td></tr></table>",
            "<table><tr><td>Surname</td><td>[PERSON]</td></tr><tr><td>City</td><td>[LOCATION]</td></tr></table>",
        ),
        (
            "a.json",
            '{"customer": {"name": {"first": "Jane", "last": "Roe"}}}',
            '{"customer": {"name": {"first": "[PERSON]", "last": "[PERSON]"}}}',
        ),
    ],
)
def test_values_are_swept_by_their_names(sweep_file: SweepFile, name: str, text: str, expected: str) -> None:
    outcome, swept = sweep_file(engine_of(), name, text.encode())
    assert not outcome.withheld
    assert swept is not None
    assert swept.decode() == expected


def test_yaml_keeps_its_structure_and_layout(sweep_file: SweepFile) -> None:
    text = (
        f"# of {MAIL}\nclient: &one\n  name: {{first: Jane, last: 'Roe'}}\n  mail: \"jane.roe\\x40example.com\" # c\n"
        f"card: 4111111111111111\n{MAIL}: [x, *one]\nnote: |\n  to {MAIL}\n  us\nkey: !!binary |\n  AAECAwQF\n"
        "---\nsurname: Roe\n"
    )
    engine = engine_of()
    _, swept = sweep_file(engine, "a.yaml", text.encode())
    assert swept is not None
    first, second = yaml.safe_load_all(swept)
    client = {"name": {"first": "[PERSON]", "last": "[PERSON]"}, "mail": "[EMAIL_ADDRESS]"}
    assert first == {
        "client": client,
        "card": "[CREDIT_CARD]",
        "[EMAIL_ADDRESS]": ["x", client],
        "note": "to [EMAIL_ADDRESS]\nus\n",
        "key": b"",
    }
    assert second == {"surname": "[PERSON]"}
    assert swept.startswith(b"# of [EMAIL_ADDRESS]\nclient: &one\n  name: {first: ")
    assert engine.counts["emptied_values"] == 1


def test_toml_stays_toml(sweep_file: SweepFile) -> None:
    text = (
        f'[client]\nssn = 123456789\nname = {{ first = "Jane", n = 1 }}\nmails = ["{MAIL}", "x"]\ncity = \'Oakton\'\n'
    )
    _, swept = sweep_file(engine_of(), "a.toml", text.encode())
    assert swept is not None
    assert tomllib.loads(swept.decode())["client"] == {
        "ssn": "[US_SSN]",
        "name": {"first": "[PERSON]", "n": 1},
        "mails": ["[EMAIL_ADDRESS]", "x"],
        "city": "[LOCATION]",
    }


@pytest.mark.parametrize("name", ["a.yaml", "a.toml", "a.vcf", "a.sql", "a.md"])
@pytest.mark.parametrize("text", ["a: [\n'", "(" * 50_000, "[" * 50_000 + "\n", "INSERT INTO t VALUES ('", '="\\'])
def test_what_only_looks_like_its_format_is_swept_as_text(sweep_file: SweepFile, name: str, text: str) -> None:
    outcome, swept = sweep_file(engine_of(), name, f"{text}\nto {MAIL}\n".encode())
    assert not outcome.withheld
    assert swept is not None
    assert swept.decode() == f"{text}\nto [EMAIL_ADDRESS]\n"


def test_detect_says_that_bytes_were_not_searched(sweep_file: SweepFile) -> None:
    engine = engine_of(mode="detect")
    sweep_file(engine, "a.vcf", b"PHOTO;ENCODING=b:AAECAwQ=\n")
    assert (engine.counts["unsearched_files"], engine.counts["emptied_values"]) == (1, 0)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "a.ini",
            "# of Ann\n[client]\nstage = Ann ; of Bob\nthe rest\n",
            "# P P\n[client]\nstage = P ; P P\nP P\n",
        ),
        ("a.toml", 'n = 300000\nx = "Ann" # Bob\ny = """\nAnn\n"""\n', 'n = 300000\nx = "P" # P\ny = """\nP\n"""\n'),
        ("a.yaml", "# Ann\nstage: {who: Ann Roe}\n", '# P\nstage: {who: "P P"}\n'),
        (
            "a.yaml",
            "in 2024: x\nstage: y\nwho: z\nwhen: z\nwhere: z\nnote: Ann Roe\n",
            'in 2024: x\nstage: y\nwho: z\nwhen: z\nwhere: z\nnote: "P P"\n',
        ),
        (
            "a.sql",
            "-- Ann\nINSERT INTO t (a, b) VALUES ('Ann', 320); /* Ann */\nUPDATE t SET a = 'Ann';\n",
            "-- P\nINSERT INTO t (a, b) VALUES ('P', 320); /* P */\nUPDATE t SET a = 'P';\n",
        ),
        ("a.vcf", "BEGIN:VCARD\nVERSION:3.0\nNOTE:Ann\nEND:VCARD\n", "BEGIN:VCARD\nVERSION:3.0\nNOTE:P\nEND:VCARD\n"),
        (
            "a.md",
            "Ann\n\n| stage | id |\n|---|---|\n| Ann | 1 |\n\nAnn\n",
            "P\n\n| stage | id |\n|---|---|\n| P | 1 |\n\nP\n",
        ),
        ("a.csv", "Miejscowo\u015b\u0107;Stage\nUlm;Ann Lee\n", "Miejscowo\u015b\u0107;Stage\n[LOCATION];P P\n"),
        ("a.csv", "Ann Lee;a@b.de\nBob Lee;b@b.de\n", "P P;[EMAIL_ADDRESS]\nP P;[EMAIL_ADDRESS]\n"),
        (
            "a.xml",
            '<?xml version="1.0" encoding="ISO-8859-1"?>\n<!DOCTYPE note>\n<note>Ann</note>',
            '<?xml version="1.0" encoding="ISO-8859-1"?>\n<!DOCTYPE note>\n<note>P</note>',
        ),
        (
            "a.html",
            "<table><tr><th>Town<th>Stage</tr><tr><td>Ulm<td>Ann</table>",
            "<table><tr><th>Town<th>Stage</tr><tr><td>[LOCATION]<td>P</table>",
        ),
    ],
)
def test_a_model_changes_no_names_marks_and_bare_numbers(
    sweep_file: SweepFile, name: str, text: str, expected: str
) -> None:
    engine = Redactor({"mode": "redact", "model": "local"}, EveryWord())
    _, swept = sweep_file(engine, name, text.encode())
    assert swept is not None
    assert swept.decode().replace("[PERSON]", "P") == expected
