"""Bounds of a run's page: rows of its lists, then characters of its texts; links lead to the rest."""

from typing import Final

STEPS: Final = 20
"""Steps of a page, for a run with more steps than one can draw."""
SPANS: Final = 30
"""Latest attempts and waits of a step that the timeline draws."""
SPANS_OF_ALL: Final = 120
APPROVALS: Final = 10
DECISIONS: Final = 20
EVENTS: Final = 50
OUTPUTS: Final = 40
WARNINGS: Final = 20

NEEDED: Final = 5
"""Most needed steps whose values are shown with the selected step."""
ATTEMPTS: Final = 20
FILES: Final = 20
CHILDREN: Final = 50
"""Runs that a step started, of a page of them."""
MODELS: Final = 10
ITEM_LOGS: Final = 50
"""Most items of a fan-out whose logs are listed: the first ones that printed."""

JSON: Final = 400
"""Characters of an event's data."""
LISTED: Final = 300
"""Characters of a sentence, a warning or an error in a list."""
ATTEMPT: Final = 600
"""Characters of an attempt's error."""
MESSAGE: Final = 1_000
"""Characters of an error or of instructions."""
VALUE: Final = 6_000
"""Characters of a step's value, or of the end of its log."""
TEXT: Final = 10_000
REVEALED: Final = 30_000
"""Characters of an input as given."""
SUMMARY: Final = 100_000
"""Characters of a summary as HTML; a longer summary is shown as text."""
