"""National phone numbers are found where the document or the policy tells of their country, and only there."""

from typing import Any

import pytest

from redaction.redactor import Redactor


def swept(text: str, **policy: Any) -> str:
    return Redactor({"mode": "redact", **policy}).text(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Hola, estoy en casa por la mañana: 612 345 678", "612 345 678"),
        ("Olá, não estou em casa, por favor: 912 345 678", "912 345 678"),
        ("Dzień dobry, proszę dzwonić pod numer 601 234 567", "601 234 567"),
        ("Hei, jeg er ikke hjemme, ring 412 34 567", "412 34 567"),
        ("Hej, det er ikke mig, 20 12 34 56", "20 12 34 56"),
        ("ana@example.es 612 345 678", "612 345 678"),
        ("https://example.cz/kontakt 601 234 567", "601 234 567"),
        ("+48 22 123 45 67 or 601 234 567", "601 234 567"),
        ("ES9121000418450200051332, 612 345 678", "612 345 678"),
        ("From Spain: 612 345 678", "612 345 678"),
        ("Ik ben er morgen niet, bel mij op 06 12345678", "06 12345678"),
    ],
)
def test_a_document_tells_of_the_country_of_its_numbers(text: str, number: str) -> None:
    assert number not in swept(text)


@pytest.mark.parametrize("number", ["612 345 678", "601 234 567", "20 12 34 56", "412 34 567"])
def test_a_number_of_no_country_that_is_told_of_stays(number: str) -> None:
    assert swept(f"so {number}, and") == f"so {number}, and"


def test_a_policy_names_countries() -> None:
    assert swept("so 612 345 678, and 20 12 34 56", phone_regions=["ES"]) == "so [PHONE_NUMBER], and 20 12 34 56"


def test_values_of_one_document_share_its_countries() -> None:
    engine = Redactor({"mode": "redact"})
    assert engine.value({"country": "ES", "notes": ["see 612 345 678"]})["notes"] == ["see [PHONE_NUMBER]"]


@pytest.mark.parametrize(
    "text",
    [
        "Su pedido 612 345 678 está en camino por la mañana",
        "Importe total: 612 345 678 € para el cliente",
        "Son 612 345 678 euros por los datos",
        "Factura nº 612 345 678, gracias por su compra",
        "Kwota 601 234 567 zł, dziękuję, nie ma za co",
        "Fra 2012-2013 og 2012 2013, det er ikke mig",
        "Ordre 12 34 56 78 er på vej, det er ikke mig",
        "El total es de 612.345.678 con los datos para usted",
    ],
)
def test_other_numbers_in_such_a_document_stay(text: str) -> None:
    assert swept(text) == text
