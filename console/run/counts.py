"""How much the page of a run shows at once: rows of its lists, and bytes of HTML of its texts.

Of all together the page has less than 100 kB, whatever the run has; the rest of each is a link away.
"""

from typing import Final

NEEDS_LISTED: Final = 2
SPANS: Final = 3
"""Attempts and waits of a step that the timeline draws, the latest."""
LINES: Final = 8_000
"""Characters of the lines of the graph."""
EVENTS: Final = 10
APPROVALS: Final = 2
DECISIONS: Final = 5
OUTPUTS: Final = 8
WARNINGS: Final = 5

NEEDED: Final = 2
"""Steps before the selected one whose values are shown beside its own."""
ATTEMPTS: Final = 5
FILES: Final = 3

NAME: Final = 60
"""Of a title, a step's name, a path or another part of a line."""
HANDLE: Final = 40
"""Of a step's handle beside others."""
LINE: Final = 200
"""Of a sentence, a warning or an error in a list."""
MESSAGE: Final = 500
"""Of an error or a person's words."""
TEXT: Final = 1_500
"""Of a value, a result, or the end of a log."""
INPUT: Final = 1_000
"""Of an input or a policy."""
SAMPLE: Final = 1_000
"""Of a code sample; longer ones are left out."""
SUMMARY: Final = 3_000
"""Of a summary as HTML; a longer one is shown as its text."""
