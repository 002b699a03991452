"""Writes a reading list of twelve papers, as somebody would type it, and the expected notes.

    python examples/research/generate.py FOLDER

`FOLDER/reading-list.md` is the text that the model reads; `FOLDER/expected-research.json` holds the notes that a
careful reader takes. The same seed always writes the same bytes. The papers are made up.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

SEED = 20260924
AUTHORS = ("M. Adeyemi", "S. Brandt", "L. Castellanos", "J. Dufour", "K. Eriksen", "P. Fontana")
TOPICS = {
    "soil moisture": ("is better told by radar than by gauges", "falls twice as fast under maize as under grass"),
    "river ice": ("breaks up nine days earlier than in 1980", "can be seen by cheap cameras at night"),
    "urban heat": ("is two degrees lower beside old trees", "peaks three hours after sunset"),
    "peat fires": ("smoulder below the snow for months", "are found by their methane first"),
}


def paper(number: int, chance: random.Random) -> dict[str, Any]:
    topic = list(TOPICS)[number % len(TOPICS)]
    finding = chance.choice(TOPICS[topic])
    authors = sorted(chance.sample(AUTHORS, chance.randrange(1, 4)))
    year = chance.randrange(2015, 2026)
    title = f"{topic.capitalize()} in {chance.choice(('Norway', 'Bavaria', 'Ontario', 'Hokkaido'))}, part {number + 1}"
    return {"title": title, "year": year, "authors": authors, "topic": topic, "finding": f"{topic} {finding}"}


def main(folder: Path) -> None:
    chance = random.Random(SEED)
    papers = [paper(number, chance) for number in range(12)]
    folder.mkdir(parents=True, exist_ok=True)
    entries = [
        f"- {one['title']} ({', '.join(one['authors'])}, {one['year']}). The authors find that {one['finding']}."
        for one in papers
    ]
    text = "# Reading list\n\n" + "\n".join(entries) + "\n"
    (folder / "reading-list.md").write_text(text, encoding="utf-8")
    expected = json.dumps({"notes": papers}, indent=2, ensure_ascii=False)
    (folder / "expected-research.json").write_text(expected, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
