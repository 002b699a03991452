"""Converts amounts by the rates of the step before, without network and key."""

import csv
import io
from decimal import Decimal
from typing import Any

from workflow_api_agent import Context


def run(context: Context) -> dict[str, Any]:
    answer = context.needs["rates"]
    rates = {currency: Decimal(str(rate)) for currency, rate in answer["rates"].items()}
    total, converted, without_rate = Decimal(0), 0, list[str]()
    with (context.outputs / "amounts.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["description", "amount", "currency", f"amount_{answer['base'].lower()}"])
        for row in csv.DictReader(io.StringIO(context.input_text or "")):
            rate = rates.get(row["currency"])
            if rate is None:
                without_rate.append(row["description"])
                continue
            amount = round(Decimal(row["amount"]) / rate, 2)
            writer.writerow([row["description"], row["amount"], row["currency"], amount])
            total += amount
            converted += 1
    return {
        "date": answer["date"],
        "base": answer["base"],
        "total": float(total),
        "converted": converted,
        "without_rate": without_rate,
    }
