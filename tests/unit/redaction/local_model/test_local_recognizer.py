"""The local model: what it finds, what bounds it, and that it needs no right beyond those of any sweep."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.common.secrets import Secrets
from backend.resources.models import Models
from backend.resources.redaction.confined_redactor import ConfinedRedactor
from backend.services.workflows.pii_policy import normalise
from backend.settings import RedactionLimits
from redaction.local_model.token_classifier import token_classifier

POLICY = normalise({"mode": "redact", "model": "local"})
LETTER = "Yesterday Maria Gonzalez wrote from 12 Baker Street. She asked for Thomas Schneider, who was out.\n"


@pytest.fixture(name="redactor", scope="module")
def _redactor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfinedRedactor]:
    scratch = tmp_path_factory.mktemp("scratch") / "redaction"
    redactor = ConfinedRedactor(Models(Secrets(), {}), scratch=scratch, limits=RedactionLimits(processes=1))
    yield redactor
    redactor.close()


def swept_file(redactor: ConfinedRedactor, folder: Path, text: str, calls: int) -> tuple[str, int, int]:
    source, target = folder / "a.txt", folder / "swept"
    source.write_text(text)
    _, counts = redactor.file({**POLICY, "max_model_calls": calls}, source, target, "a.txt", owner="key")
    return target.read_text(), counts.model_calls, counts.model_skipped


def test_names_and_places_in_running_text_are_found(redactor: ConfinedRedactor) -> None:
    values, counts = redactor.values(POLICY, [LETTER], owner="key")
    assert values == [
        "Yesterday [PERSON] wrote from [LOCATION]. She asked for [PERSON], who was out.\n",
    ]
    assert (counts.model_calls, counts.model_skipped, counts.categories["PERSON"]) == (1, 0, 2)


def test_only_the_categories_of_the_policy_are_hidden(redactor: ConfinedRedactor) -> None:
    values, _ = redactor.values({**POLICY, "categories": ["LOCATION"]}, [LETTER], owner="key")
    assert "Maria Gonzalez" in values[0]
    assert "Baker" not in values[0]


def test_a_name_is_hidden_wherever_it_stands(redactor: ConfinedRedactor) -> None:
    text = LETTER + "total 3\nMaria Gonzalez\nx = 1"
    values, _ = redactor.values(POLICY, [text], owner="key")
    assert "Gonzalez" not in values[0]
    assert "total 3" in values[0]


@pytest.mark.parametrize(
    "name",
    [
        "Pawe\u0142 Ga\u0142\u0105zka",
        "I\u015f\u0131l Y\u0131ld\u0131z",
        "\u0110or\u0111e Petrovi\u0107",
        "Mette \u00d8rsted",
        "Kj\u00e6r Nielsen",
        "C\u0153lia Leb\u0153uf",
    ],
)
def test_a_name_written_with_strokes_or_ligatures_is_found(redactor: ConfinedRedactor, name: str) -> None:
    values, _ = redactor.values(POLICY, [f"We met {name} there, and nobody else came."], owner="key")
    assert values == ["We met [PERSON] there, and nobody else came."]


def test_a_word_in_small_letters_that_is_hardly_one_of_a_place_ends_none(redactor: ConfinedRedactor) -> None:
    values, _ = redactor.values(POLICY, ["Wir treffen uns in Kassel am alten Bahnhof."], owner="key")
    assert "] am alten [" in values[0]


def test_a_name_in_a_line_of_small_letters_is_found(redactor: ConfinedRedactor) -> None:
    values, _ = redactor.values(POLICY, ["t'as vu bastien hier"], owner="key")
    assert "bastien" not in values[0]


@pytest.mark.parametrize(
    "text",
    ["Samedi soir, la salle était pleine.", "Le train de vendredi est complet."],
)
def test_a_day_of_the_week_stays(redactor: ConfinedRedactor, text: str) -> None:
    assert redactor.values(POLICY, [text], owner="key")[0] == [text]


def test_what_a_former_sweep_replaced_stays(redactor: ConfinedRedactor) -> None:
    once, _ = redactor.values(POLICY, [LETTER], owner="key")
    assert redactor.values(POLICY, once, owner="key")[0] == once


def test_short_numbers_alone_in_a_cell_stay(redactor: ConfinedRedactor) -> None:
    rows = [{"id": 46024, "who": "Thomas Schneider"}, {"id": 12, "price": "99.00"}]
    values, _ = redactor.values(POLICY, [rows], owner="key")
    assert values == [[{"id": 46024, "who": "[PERSON]"}, {"id": 12, "price": "99.00"}]]


def test_text_without_letters_costs_no_call(redactor: ConfinedRedactor) -> None:
    assert redactor.values(POLICY, ["12 34 56"], owner="key")[1].model_calls == 0


def test_a_file_too_large_for_the_calls_left_is_swept_by_the_rules_alone(
    redactor: ConfinedRedactor, tmp_path: Path
) -> None:
    text = (LETTER + "Mail jane.roe@example.com\n") * 200
    swept, calls, skipped = swept_file(redactor, tmp_path, text, 2)
    assert "Maria Gonzalez" in swept
    assert "jane.roe" not in swept
    assert (calls, skipped) == (0, 4)


def test_a_file_that_the_calls_left_suffice_for_is_read_whole(redactor: ConfinedRedactor, tmp_path: Path) -> None:
    swept, calls, skipped = swept_file(redactor, tmp_path, LETTER * 100, 3)
    assert "Gonzalez" not in swept
    assert (calls, skipped) == (2, 0)


def test_the_model_stops_when_its_processor_time_is_used_up(tmp_path: Path) -> None:
    limits = RedactionLimits(processes=1, model_seconds=0.0)
    redactor = ConfinedRedactor(Models(Secrets(), {}), scratch=tmp_path / "scratch", limits=limits)
    try:
        values, counts = redactor.values(POLICY, [LETTER + "jane.roe@example.com"], owner="key")
    finally:
        redactor.close()
    assert "Maria Gonzalez" in values[0]
    assert "[EMAIL_ADDRESS]" in values[0]
    assert (counts.model_calls, counts.model_skipped) == (0, 1)


def test_every_word_of_a_long_text_is_read_once_and_whole() -> None:
    text = " ".join(f"word{number}" for number in range(700)) + " O'Connor-Smith"
    words = token_classifier().words(text)
    assert [text[word.start : word.end] for word in words] == text.split()
    assert all(0 <= word.likelihood <= 1 for word in words)


def test_names_in_a_table_are_found_below_the_name_of_their_column(redactor: ConfinedRedactor, tmp_path: Path) -> None:
    people = ["Jane Roe", "Tomasz Kowalski", "Li Wei", "Ana Souza", "Priya Nair"]
    states = ["In Progress", "Blocked", "Pending Review", "On Hold", "Done"]
    source, target = tmp_path / "a.csv", tmp_path / "swept"
    source.write_text("no,Assigned,Stage\n" + "".join(f"7{row},{people[row]},{states[row]}\n" for row in range(5)))
    redactor.file(POLICY, source, target, "a.csv", owner="key")
    assert target.read_text().splitlines()[1:] == [f"7{row},[PERSON],{states[row]}" for row in range(5)]


def test_words_and_numbers_beside_values_stay(redactor: ConfinedRedactor) -> None:
    text = "Hola Leandro, su hija llega con Clara von Bülow. La prueba tarda 1834 ms en 0x7fff5fbff8c0."
    values, _ = redactor.values(POLICY, [text], owner="key")
    assert values == ["Hola [PERSON], su hija llega con [PERSON]. La prueba tarda 1834 ms en 0x7fff5fbff8c0."]


def test_a_text_with_a_broken_character_is_read(redactor: ConfinedRedactor, tmp_path: Path) -> None:
    source, target = tmp_path / "a.txt", tmp_path / "swept"
    source.write_bytes("Größe \udce4: ".encode(errors="surrogateescape") + LETTER.encode())
    redactor.file(POLICY, source, target, "a.txt", owner="key")
    assert b"\xe4: Yesterday [PERSON] wrote from [LOCATION]" in target.read_bytes()


def test_numbers_that_are_not_those_of_people_stay(redactor: ConfinedRedactor) -> None:
    text = (
        "Order 4500012345 was shipped. The query took 4155550199 ns and read 2147483648 bytes. "
        "Bestellnummer 9000123456, commit 9e107d9d372bb6826bd81d3542a419d6, "
        "Numero di serie 4410020031, USt-IdNr. DE136695976, RE-10442."
    )
    assert redactor.values(POLICY, [text], owner="key")[0] == [text]


def test_numbers_of_people_are_hidden_by_the_type_that_a_rule_knows(redactor: ConfinedRedactor) -> None:
    text = "Codice fiscale RCCMNL83S18D969H, CPF 390.533.447-05, her driving licence D1234567."
    values, _ = redactor.values(POLICY, [text], owner="key")
    assert values == ["Codice fiscale [IT_FISCAL_CODE], CPF [BR_CPF], her driving licence [US_DRIVER_LICENSE]."]


def test_a_number_beside_the_name_of_a_place_is_part_of_its_address(redactor: ConfinedRedactor) -> None:
    values, _ = redactor.values(POLICY, ["Sie wohnt in Eleni-Ruppert-Platz 8;14100;L\u00fcbz seit Mai."], owner="key")
    assert "14100" not in values[0]


def test_parts_of_institutions_stay(redactor: ConfinedRedactor) -> None:
    text = "El Ministerio de Hacienda publica cada a\u00f1o el bolet\u00edn. Z powa\u017caniem, Biuro Obs\u0142ugi"
    assert redactor.values(POLICY, [text], owner="key")[0] == [text]


@pytest.mark.parametrize(
    "text",
    [
        "Das Angebot kam gestern von der Firma Marquardt, die Ware folgt.",
        "Cogimos la sala Goya sin más.",
        "Le cabinet Mazars a rendu son avis.",
        "Heute ist der Sitzungsraum Watzmann gesperrt.",
        "Lekarze wykluczyli u niego morbus Hodgkin w maju.",
    ],
)
def test_what_a_word_for_a_firm_a_room_or_alike_precedes_stays(redactor: ConfinedRedactor, text: str) -> None:
    assert redactor.values(POLICY, [text], owner="key")[0] == [text]


@pytest.mark.parametrize(
    "text",
    [
        "We ordered it from Ashdown Roofing last week.",
        "Wilson Disease was ruled out.",
        "Der Auftrag von Brandt Consulting ruht.",
        "Wir schulen morgen mit Wagner & Lehmann GmbH.",
    ],
)
def test_what_stands_before_a_word_that_ends_the_name_of_a_thing_stays(redactor: ConfinedRedactor, text: str) -> None:
    assert redactor.values(POLICY, [text], owner="key")[0] == [text]


def test_a_name_behind_a_title_or_a_given_name_is_no_thing(redactor: ConfinedRedactor) -> None:
    text = "Die Firma Dr. Anna Weber und Herr Sebastian Holzbank kommen. The room was left to Thomas Schneider."
    values, _ = redactor.values(POLICY, [text], owner="key")
    assert all(name not in values[0] for name in ("Weber", "Holzbank", "Schneider"))


def test_what_has_a_dose_behind_it_is_no_name(redactor: ConfinedRedactor) -> None:
    text = "Nimmt morgens Marcumar Meda 3 mg und abends Torem 10 mg ein."
    assert redactor.values(POLICY, [text], owner="key")[0] == [text]


def test_a_word_with_a_capital_inside_is_no_name_but_that_of_a_family(redactor: ConfinedRedactor) -> None:
    values, _ = redactor.values(POLICY, ["1203   Monitor UltraSharp    24\n\nThomas McAllister called.\n"], owner="key")
    assert values == ["1203   Monitor UltraSharp    24\n\n[PERSON] called.\n"]


def test_what_the_article_precedes_is_no_name(redactor: ConfinedRedactor) -> None:
    text = "We renewed the Victoria Pro licence and told Maria Gonzalez so."
    assert redactor.values(POLICY, [text], owner="key")[0] == [text.replace("Maria Gonzalez", "[PERSON]")]


def test_what_follows_a_field_of_things_stays(redactor: ConfinedRedactor) -> None:
    text = "Vettore: Lorenzo Marini Spedizioni\nHersteller: Gustav Klauke\nAutista: Giulia Santoro\n"
    values, _ = redactor.values(POLICY, [text], owner="key")
    assert values == ["Vettore: Lorenzo Marini Spedizioni\nHersteller: Gustav Klauke\nAutista: [PERSON]\n"]


def test_columns_of_things_stay_in_tables_aligned_by_blanks(redactor: ConfinedRedactor) -> None:
    text = (
        "Ticket  Device            Brand     Department   Reported\n"
        "A-1     Printer Victoria  Brother   Kitchen      Thomas Schneider\n"
        "A-2     Oven Magdalena    Siemens   Paloma Wing  Maria Gonzalez\n"
    )
    values, _ = redactor.values(POLICY, [text], owner="key")
    assert values == [text.replace("Thomas Schneider", "[PERSON]").replace("Maria Gonzalez", "[PERSON]")]


def test_descriptions_beside_quantities_are_of_goods(redactor: ConfinedRedactor) -> None:
    text = (
        "Qty  Description                Price\n"
        "2    Dulux Victoria Blossom     31.00\n"
        "1    Yale Madison Nightlatch    62.50\n"
    )
    assert redactor.values(POLICY, [text], owner="key")[0] == [text]


def test_the_name_of_a_thing_stays_where_it_stands_again(redactor: ConfinedRedactor) -> None:
    text = "Harrow & Blake Joinery Ltd\n\nThe goods remain with Harrow & Blake until they are paid.\n"
    assert redactor.values(POLICY, [text], owner="key")[0] == [text]


def test_initials_before_a_family_name_are_part_of_it(redactor: ConfinedRedactor) -> None:
    text = "Anwesend: Murat Yildirim, Katrin Hofstetter\nProtokoll: M. Yildirim\n"
    assert redactor.values(POLICY, [text], owner="key")[0] == ["Anwesend: [PERSON]\nProtokoll: [PERSON]\n"]


def test_whom_a_participant_stands_for_stays(redactor: ConfinedRedactor) -> None:
    values, _ = redactor.values(POLICY, ["Présents : Karim Haddad (Mathilde), Sophie Delaunay (DSI)\n"], owner="key")
    assert values == ["Présents : [PERSON] (Mathilde), [PERSON] (DSI)\n"]


def test_a_code_of_capitals_and_digits_is_no_name(redactor: ConfinedRedactor) -> None:
    text = "Account Ref: KESTREL-07\n\nBill To:\n"
    assert redactor.values(POLICY, [text], owner="key")[0] == [text]


def test_a_noun_of_an_occupation_beside_a_name_stays(redactor: ConfinedRedactor) -> None:
    values, _ = redactor.values(POLICY, ["Morgen kommt Monteur Witek vorbei."], owner="key")
    assert values == ["Morgen kommt Monteur [PERSON] vorbei."]
