"""Writes 300 support tickets as JSON lines, a file a month, and the expected counts and personal values.

    python examples/tickets/generate.py FOLDER

`FOLDER/tickets/*.jsonl` are the tickets; `FOLDER/expected-tickets.json` has the number of tickets of each category and
every personal value in them. The same seed always writes the same bytes.
"""

import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

SEED = 20260924
TICKETS = 300
MONTHS = ("2026-03", "2026-04", "2026-05")
FIRST_NAMES = ("Amara", "Bastian", "Carmen", "Dmitri", "Eleanor", "Farid", "Greta", "Hugo", "Ingrid", "Jovan")
SURNAMES = ("Okafor", "Lindqvist", "Marchetti", "Petrov", "Whitfield", "Nasser", "Hoffmann", "Delgado", "Novak")
SUBJECTS = {
    "billing": ("Charged twice", "Wrong amount on my invoice", "A payment that I did not make"),
    "delivery": ("Parcel has not arrived", "Delivery to the wrong door", "The courier came too late"),
    "account": ("Cannot log in", "My password is refused", "Please close my account"),
    "defect": ("The lamp is broken", "Handle came off", "The display stays dark"),
    "other": ("A question", "Thank you", "Opening times in summer"),
}
MESSAGES = {
    "billing": "The invoice shows {amount} more than we agreed. Please refund it to my account {iban}.",
    "delivery": "The parcel was to come on Monday. Call me on {phone} when the courier is near.",
    "account": "I cannot log in with {email} since the password was changed.",
    "defect": "It was broken when I opened the box. I paid with card {card}.",
    "other": "Could somebody write to {email}, please?",
}


def person(chance: random.Random) -> dict[str, str]:
    """Returns a customer; numbers are made up, with right check digits."""
    name = f"{chance.choice(FIRST_NAMES)} {chance.choice(SURNAMES)}"
    account = f"{chance.randrange(10**18):018}"
    return {
        "name": name,
        "email": f"{name.replace(' ', '.').lower()}{chance.randrange(1000)}@example.com",
        "phone": f"+44 20 7946 {chance.randrange(10_000):04}",
        "iban": f"DE{98 - int(account + '131400') % 97:02}{account}",
        "card": with_luhn_digit(f"4{chance.randrange(10**14):014}"),
    }


def with_luhn_digit(digits: str) -> str:
    """Returns card digits in groups of four, the last digit computed."""
    doubled = (int(digit) * (2 if place % 2 == 0 else 1) for place, digit in enumerate(reversed(digits)))
    whole = digits + str(-sum(number - 9 if number > 9 else number for number in doubled) % 10)
    return " ".join(whole[start : start + 4] for start in range(0, 16, 4))


def ticket(number: int, month: str, category: str, who: dict[str, str], chance: random.Random) -> dict[str, Any]:
    text = MESSAGES[category].format(amount=f"{chance.randrange(100, 9000) / 100:.2f}", **who)
    return {
        "ticket": f"T-{number:04}",
        "opened": f"{month}-{chance.randrange(1, 29):02}",
        "subject": chance.choice(SUBJECTS[category]),
        "customer": {"name": who["name"], "email": who["email"], "phone": who["phone"]},
        "message": f"Hello,\n{text}\nRegards, {who['name']}",
    }


def main(folder: Path) -> None:
    chance = random.Random(SEED)
    (folder / "tickets").mkdir(parents=True, exist_ok=True)
    categories: Counter[str] = Counter()
    personal: set[str] = set()
    lines: dict[str, list[str]] = {month: [] for month in MONTHS}
    for number in range(TICKETS):
        month, category, who = MONTHS[number % 3], chance.choice(list(MESSAGES)), person(chance)
        made = ticket(number, month, category, who, chance)
        lines[month].append(json.dumps(made, ensure_ascii=False))
        categories[category] += 1
        personal |= {value for value in who.values() if value in made["message"] or value in made["customer"].values()}
    for month, texts in lines.items():
        (folder / "tickets" / f"{month}.jsonl").write_text("\n".join(texts) + "\n", encoding="utf-8")
    expected = {"tickets": TICKETS, "categories": dict(sorted(categories.items())), "personal": sorted(personal)}
    (folder / "expected-tickets.json").write_text(json.dumps(expected, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
