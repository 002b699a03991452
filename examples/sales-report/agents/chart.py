"""Draws revenue by month and region from the files of step `tables`."""

import os

import pandas as pd

from workflow_api_agent import Context


def run(context: Context) -> None:
    # Matplotlib keeps a list of fonts; the workspace is a folder that it may write to.
    os.environ["MPLCONFIGDIR"] = str(context.workspace)
    from matplotlib.figure import Figure

    # The files of step `tables`, which this step needs.
    monthly = pd.read_csv(context.files / "tables" / "monthly.csv", index_col="month")
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    monthly.plot.bar(ax=axes, stacked=True, rot=0, width=0.7)
    axes.set(title="Revenue by month and region", xlabel="", ylabel="Revenue")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(context.outputs / "revenue.png", dpi=120)
