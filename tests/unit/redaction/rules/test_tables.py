"""Rules are data: tables with nothing in them that no rule reads, and nothing that the loader does not know."""

import re

import pytest

from redaction.rules import tables
from redaction.rules.loader import FAMILIES, all_rules, rules_of
from redaction.rules.tables import FOLDER, LABELS, SCRIPTS, SHARED, read_table, scored_patterns, table

PLAIN = (LABELS, SCRIPTS)
RULE = "[[rules]]\nentity = 'URL'\npattern = 'a'\n"


def test_every_table_is_read() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.toml")) == sorted({*FAMILIES, SHARED, *PLAIN})
    assert len(all_rules()) == sum(len(table(family).rules) for family in FAMILIES)
    assert [len(scored_patterns(name)) for name in PLAIN] == [len(table(name).rules) for name in PLAIN]


@pytest.mark.parametrize("name", [*FAMILIES, SHARED, *PLAIN])
def test_every_piece_of_a_table_is_used(name: str) -> None:
    given = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    code = "".join(path.read_text(encoding="utf-8") for path in FOLDER.parent.rglob("*.py"))
    tables_of_all = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.toml"))
    pieces = re.findall("^([a-z_]+) = ", given.partition("[pieces]")[2].partition("\n[")[0], re.MULTILINE)
    used = tables_of_all if name == SHARED else given
    assert [piece for piece in pieces if f"{{{piece}}}" not in used and not re.search(f"[\"']{piece}[\"']", code)] == []


def test_a_pattern_is_put_together_of_pieces_and_lines() -> None:
    given = read_table(
        "[pieces]\none = 'zażółć'\nmore = '{one}|{begin}'\n" + RULE + "context = '''\n{more}|\nb'''", "x"
    )
    [rule] = rules_of(given)
    assert rule.context == f"za\xff\xf3\xff\xff|{tables.shared('begin')}|b"


def test_a_rule_has_the_defaults_of_its_table_unless_it_says_otherwise() -> None:
    given = read_table("[defaults]\nscore = 0.5\nnumeric = false\n" + RULE + "score = 0.6", "x")
    [rule] = rules_of(given)
    assert (rule.score, rule.numeric, rule.longest) == (0.6, False, 100)


def test_an_opening_is_without_what_re2_cannot_read() -> None:
    [rule] = rules_of(read_table(RULE + "opening = '(?>a)b'", "x"))
    assert rule.opening == "(?:a)b"


def test_words_are_of_their_table() -> None:
    assert read_table('[words]\ngreetings = """\ncześć hej"""', "x").words == {"greetings": {"cze\xff\xff", "hej"}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[rule]", "x.toml: rule is none of defaults, pieces, rules, words"),
        ("pieces = 'a'", "x.toml: pieces must be a table"),
        ("[rules]", "x.toml: rules must be tables"),
        ("[pieces]\nbegin = 'a'", "x.toml: pieces: begin is one of shared.toml too"),
        ("[pieces]\none = 1", "x.toml: pieces: one must be a text"),
        ("[pieces]\none = '{two}'\ntwo = 'a'", "x.toml: pieces: one: two is no piece"),
        ("[words]\nsome = 'Damen'", "x.toml: words: some: Damen is no word in small letters"),
        ("[[rules]]\npattern = 'a'", "x.toml: rule 1: entity is missing"),
        (RULE + RULE + "colour = 'red'", "x.toml: rule 2: colour is no key of a rule"),
        (RULE + "context = '{two}'", "x.toml: rule 1: context: two is no piece"),
        ("[[rules]]\nentity = 'URL'\npattern = '(a'", r"x.toml: rule 1: pattern: missing \)"),
        (RULE + "before = 'z-a'", "x.toml: rule 1: before: bad character range z-a"),
        (RULE + "opening = 1", "x.toml: rule 1: opening must be a text"),
        ("[[rules]]\nentity = 'NAME'\npattern = 'a'", "x.toml: rule 1: entity: 'NAME' is no value of it"),
        (RULE + "check = 'none'", "x.toml: rule 1: check: 'none' is no value of it"),
        (RULE + "trim = 'luhn'", "x.toml: rule 1: trim: 'luhn' is no value of it"),
        (RULE + "score = 1.1", "x.toml: rule 1: score: 1.1 is no value of it"),
        (RULE + "context_score = -0.1", "x.toml: rule 1: context_score: -0.1 is no value of it"),
        (RULE + "score = true", "x.toml: rule 1: score: True is no value of it"),
        (RULE + "longest = 0", "x.toml: rule 1: longest: 0 is no value of it"),
        (RULE + "numeric = 1", "x.toml: rule 1: numeric: 1 is no value of it"),
        ("[defaults]\ncolour = 'red'\n" + RULE, "x.toml: rule 1: colour is no key of a rule"),
    ],
)
def test_what_a_table_may_not_hold_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}"):
        rules_of(read_table(text, "x"))
