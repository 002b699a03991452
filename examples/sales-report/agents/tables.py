"""Sums the orders of the input text by month and region, and by product."""

import io
from typing import Any

import pandas as pd

from workflow_api_agent import Context

COLUMNS = ["date", "region", "product", "quantity", "unit_price"]


def run(context: Context) -> dict[str, Any]:
    orders = pd.read_csv(io.StringIO(context.input_text or ",".join(COLUMNS)))
    missing = [column for column in COLUMNS if column not in orders]
    if missing:
        raise ValueError(f"the first line of the orders lacks the columns {', '.join(missing)}")

    orders["date"] = pd.to_datetime(orders["date"], format="%Y-%m-%d", errors="coerce")
    for column in ("quantity", "unit_price"):
        orders[column] = pd.to_numeric(orders[column], errors="coerce")
    # Unreadable values are missing now. The first order is in line 2 of the file.
    unreadable = orders[COLUMNS].isna().any(axis="columns")
    rejected_lines = [int(index) + 2 for index in orders.index[unreadable]]
    orders = orders[~unreadable]
    if orders.empty:
        raise ValueError("the input text has no order that can be read")
    context.progress("orders read", orders=len(orders), rejected_lines=rejected_lines)

    orders = orders.assign(
        month=orders["date"].dt.strftime("%Y-%m"),
        revenue=orders["quantity"] * orders["unit_price"],
    )
    monthly = orders.pivot_table(index="month", columns="region", values="revenue", aggfunc="sum", fill_value=0)
    products = orders.groupby("product")["revenue"].sum().nlargest(context.parameters["top"])
    monthly.round(2).to_csv(context.outputs / "monthly.csv")
    products.round(2).to_csv(context.outputs / "products.csv")
    return {
        "orders": len(orders),
        "rejected_lines": rejected_lines,
        "revenue": round(float(orders["revenue"].sum()), 2),
        "best_month": monthly.sum(axis="columns").idxmax(),
        "products": [{"product": name, "revenue": round(revenue, 2)} for name, revenue in products.items()],
    }
