"""Writes the sales report as Markdown from the result of step `tables`."""

from typing import Any

from workflow_api_agent import Context


def run(context: Context) -> dict[str, Any]:
    tables = context.needs["tables"]
    lines = [
        "# Sales report",
        "",
        f"{tables['orders']} orders brought {tables['revenue']:,.2f}; the best month was {tables['best_month']}.",
        "",
        "| product | revenue |",
        "|---|---:|",
        *(f"| {row['product']} | {row['revenue']:,.2f} |" for row in tables["products"]),
    ]
    if tables["rejected_lines"]:
        lines += ["", f"Lines that could not be read: {', '.join(map(str, tables['rejected_lines']))}."]
    page = "\n".join(lines) + "\n"
    (context.outputs / "report.md").write_text(page, encoding="utf-8")
    # The page is also the run's summary.
    return {**tables, "summary_markdown": page}
