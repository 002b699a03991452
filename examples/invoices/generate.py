"""Writes 200 invoices, 100 as CSV and 100 as text extracted from PDFs, and their expected totals.

    python examples/invoices/generate.py FOLDER

`FOLDER/invoices/` holds the files, `FOLDER/expected-invoices.json` the totals by currency in cents, and the unreadable
files: three are damaged on purpose. The same seed always writes the same bytes.
"""

import csv
import io
import json
import random
import sys
from pathlib import Path

SEED = 20260924
CURRENCIES = ("EUR", "USD", "GBP", "CHF")
WEIGHTS = (6, 4, 2, 1)
GOODS = ("Desk lamp", "Monitor arm", "Network cable, 10 m", 'Shelf "Nord"', "Kaffeemühle", "Paper A4")
VENDORS = ("Brightwater Supplies", "Kaminski & Söhne", "Northgate Office", "Atelier Dupré")

Line = tuple[str, int, int]
"""Goods, quantity, and unit price in cents."""


def english(cents: int) -> str:
    return f"{cents / 100:,.2f}"


def continental(cents: int) -> str:
    return english(cents).translate(str.maketrans(",.", ".,"))


def as_csv(number: str, currency: str, lines: list[Line]) -> str:
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(("invoice", "currency", "item", "quantity", "unit_price"))
    writer.writerows((number, currency, item, count, f"{cents / 100:.2f}") for item, count, cents in lines)
    return written.getvalue()


def as_text(number: str, currency: str, lines: list[Line], vendor: str, german: bool) -> str:
    """Returns the text of two pages, with the blanks and the form feed that extractors leave."""
    amount = continental if german else english
    head, due = ("RECHNUNG Nr.", "Rechnungsbetrag") if german else ("INVOICE No.", "Total due")
    rows = [f"{item:<28}{count:>4}{amount(cents):>14}{amount(count * cents):>16}" for item, count, cents in lines]
    total = amount(sum(count * cents for _, count, cents in lines))
    shown = f"{total} {currency}" if german else f"{currency} {total}"
    first = [vendor, "", f"{'':20}{head} {number}", "", *rows]
    second = [f"{vendor}{'':30}{number}", "", f"{'':30}{due}:{shown:>20}"]
    return "\n".join(first) + "\n\f" + "\n".join(second) + "\n"


def main(folder: Path) -> None:
    chance = random.Random(SEED)
    (folder / "invoices" / "pdf-text").mkdir(parents=True, exist_ok=True)
    totals: dict[str, dict[str, int]] = {}
    damaged = {"A-0042.csv": "twelve", "pdf-text/B-0007.txt": "", "pdf-text/B-0080.txt": "EUR 1.2.3"}
    for number in range(200):
        currency = chance.choices(CURRENCIES, WEIGHTS)[0]
        lines = [
            (chance.choice(GOODS), chance.randrange(1, 13), chance.randrange(199, 40_000))
            for _ in range(chance.randrange(1, 6))
        ]
        vendor, german = chance.choice(VENDORS), chance.random() < 0.4
        if number < 100:
            name, text = f"A-{number:04}.csv", as_csv(f"A-{number:04}", currency, lines)
        else:
            name = f"pdf-text/B-{number - 100:04}.txt"
            text = as_text(f"B-{number - 100:04}", currency, lines, vendor, german)
        if name in damaged:
            text = text[: text.rindex("," if name.endswith(".csv") else ":") + 1] + damaged[name] + "\n"
        else:
            total = totals.setdefault(currency, {"invoices": 0, "cents": 0})
            total["invoices"] += 1
            total["cents"] += sum(count * cents for _, count, cents in lines)
        (folder / "invoices" / name).write_text(text, encoding="utf-8", newline="")
    expected = {"files": 200, "totals": dict(sorted(totals.items())), "rejected": sorted(damaged)}
    (folder / "expected-invoices.json").write_text(json.dumps(expected, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
