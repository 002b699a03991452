"""Bounds of the page of a run: rows of its lists, and characters of its texts; links lead to the rest."""

from typing import Final

STEPS: Final = 20
"""Of a run that has more than a page can draw."""
NEEDS_LISTED: Final = 12
SPANS: Final = 30
"""Attempts and waits of a step that the timeline draws, the latest."""
SPANS_OF_ALL: Final = 120
APPROVALS: Final = 10
DECISIONS: Final = 20
EVENTS: Final = 50
OUTPUTS: Final = 40
WARNINGS: Final = 20

NEEDED: Final = 5
"""Steps before the selected one whose values are shown beside its own."""
ATTEMPTS: Final = 20
FILES: Final = 20
ITEM_LOGS: Final = 50
"""Of a fan-out: the first of its items that have printed."""

JSON: Final = 400
"""Of an event's data."""
LISTED: Final = 300
"""Of a sentence, a warning or an error in a list."""
ATTEMPT: Final = 600
"""Of an attempt's error."""
MESSAGE: Final = 1_000
"""Of an error, or of instructions."""
VALUE: Final = 6_000
"""Of a step's value, or of the end of its log."""
TEXT: Final = 10_000
REVEALED: Final = 30_000
"""Of an input as it was given."""
SUMMARY: Final = 100_000
"""Of a summary as HTML; a longer one is shown as its text."""
