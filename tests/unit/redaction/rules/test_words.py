"""Words are data: a file for each language, in plain Unicode, and nothing in it that no rule reads."""

import pytest

from redaction.rules.words import FOLDER, KINDS, countries, languages, normalised_words, read_language, words


def test_every_kind_has_words_and_every_file_is_read() -> None:
    assert [kind for kind in sorted(KINDS) if not words(kind)] == []
    assert len(languages()) == len(list(FOLDER.glob("*.toml"))) - 1
    assert countries()["españa"] == "ES"


def test_words_are_written_as_their_readers_write_them() -> None:
    assert "przesyłka" in words("other_numbers")
    assert "przesy\xffka" in normalised_words("other_numbers")
    assert [path.name for path in FOLDER.glob("*.toml") if "\xff" in path.read_text(encoding="utf-8")] == []


def test_the_words_of_a_language_are_of_all_of_its_countries() -> None:
    [german] = [language for language in languages() if "DE" in language.countries]
    assert german.countries == ("DE", "AT", "CH")
    assert "straße" in german.frequent
    assert "besprechungsraum".endswith(tuple(german.words["before_thing_endings"]))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('titles = "herr"', "de.toml: titles is no kind of words"),
        ('no_names = ["damen"]', "de.toml: no_names must be a text of words"),
        ('no_names = "Damen"', "de.toml: no_names: Damen is no word in small letters"),
        ('no_names = "damen herren damen"', "de.toml: no_names: damen stands there twice"),
        ('frequent = "und"', "de.toml: countries and frequent need one another"),
        ('countries = ["Germany"]\nfrequent = "und"', "de.toml: countries must be a list of ISO 3166 codes"),
    ],
)
def test_what_a_file_may_not_hold_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_language(text, "de.toml")
