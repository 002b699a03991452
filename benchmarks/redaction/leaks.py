"""Measures leak and over-redaction in documents not used for writing rules, as tables in Markdown.

`leak` is the share of the characters of personal values (without spaces) that stay readable, whatever type hides the
others; `hidden` is the share of the words outside of values that are hidden.
"""

import math
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final

from benchmarks.redaction.documents import NEUTRAL, Document, documents, handwritten, sentences
from redaction.entity_types import ENTITY_TYPES
from redaction.local_model.local_recognizer import LocalRecognizer
from redaction.policy import LOCAL, Policy
from redaction.redactor import Redactor

CONFIDENCES: Final = (0.5, 0.8, 0.9)
_PLACEHOLDER: Final = re.compile(rf"\[({'|'.join(sorted(ENTITY_TYPES))})\]")
_WORD: Final = re.compile(r"\w+")
# Entity types that no single country issues; documents label all others as NATIONAL_ID.
_EVERYWHERE: Final = frozenset(
    (
        *("CREDIT_CARD", "CRYPTO", "DATE_TIME", "EMAIL_ADDRESS", "IBAN_CODE", "IP_ADDRESS", "LOCATION"),
        *("MAC_ADDRESS", "NRP", "ORGANIZATION", "PERSON", "PHONE_NUMBER", "SECRET", "URL"),
    )
)


@dataclass(slots=True)
class Tally:
    """Sums over documents."""

    values: Counter[str] = field(default_factory=Counter)
    hit: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    characters: Counter[str] = field(default_factory=Counter)
    readable: Counter[str] = field(default_factory=Counter)
    words: int = 0
    hidden_words: int = 0

    def add(self, document: Document, spans: list[tuple[int, int, str]]) -> None:
        """Adds a document with the spans that a sweep hid in it."""
        text = document.text
        hidden = bytearray(len(text))
        for start, end, _ in spans:
            hidden[start:end] = b"\1" * (end - start)
        labelled = bytearray(len(text))
        for start, end, label in document.labels:
            labelled[start:end] = b"\1" * (end - start)
            if label == NEUTRAL:
                continue
            self.values[label] += 1
            self.hit[label] += any(low < end and high > start for low, high, _ in spans)
            places = [place for place in range(start, end) if not text[place].isspace()]
            self.characters[label] += len(places)
            self.readable[label] += sum(not hidden[place] for place in places)
        for low, high, entity in spans:
            over = {label for start, end, label in document.labels if low < end and high > start}
            if over != {NEUTRAL}:
                named = entity if entity in _EVERYWHERE else "NATIONAL_ID"
                self.named[named] += 1
                self.right[named] += named in over
        for word in _WORD.finditer(text):
            if not any(labelled[word.start() : word.end()]):
                self.words += 1
                self.hidden_words += any(hidden[word.start() : word.end()])

    @property
    def leak(self) -> float:
        """The share of personal characters that stay readable."""
        return self.readable.total() / max(self.characters.total(), 1)

    @property
    def over_redaction(self) -> float:
        """The share of other words that are hidden."""
        return self.hidden_words / max(self.words, 1)


def measured(given: Iterable[Document], confidence: float, model: str | None = None) -> dict[str, Tally]:
    """Returns the tallies of all documents, of each language, and of each kind of file."""
    recognizer = LocalRecognizer(math.inf) if model == LOCAL else None
    policy = Policy(min_confidence=confidence, max_model_calls=sys.maxsize)
    engine = Redactor(policy, recognizer, whole_files=True)
    tallies = {"all": Tally()}
    with tempfile.TemporaryDirectory() as folder:
        for document in given:
            source, target = Path(folder, document.name), Path(folder, "swept")
            source.write_text(document.text, encoding="utf-8", newline="")
            engine.file(source, target, document.name)
            spans = hidden_spans(document.text, target.read_bytes().decode())
            for key in ("all", document.language, document.name.rpartition(".")[2]):
                tallies.setdefault(key, Tally()).add(document, spans)
    return tallies


def hidden_spans(text: str, swept: str) -> list[tuple[int, int, str]]:
    """Returns the spans of a text that its swept copy replaces; the other text is in the copy, in order."""
    spans: list[tuple[int, int, str]] = []
    parts = _PLACEHOLDER.split(swept)
    texts, types = parts[::2], parts[1::2]
    pattern = "(.+?)".join(map(re.escape, texts))
    found = re.fullmatch(pattern, text, re.DOTALL)
    if found is not None:
        return [(*found.span(number + 1), entity) for number, entity in enumerate(types)]
    # A sweep of JSON may write a number as a text, or an escape in another way.
    matcher = SequenceMatcher(None, text, swept, autojunk=False)
    changed = [(low, high) for kind, low, high, _, _ in matcher.get_opcodes() if kind != "equal" and high > low]
    spans += [(low, high, "PERSON") for low, high in changed]
    return spans


def report(copies: int, model: str | None = None) -> None:
    """Prints the leak and over-redaction of documents by confidence, language and kind, and each type's measures.

    `model` is asked besides the rules: LOCAL or None.
    """
    sets = {"documents": list(documents(11, copies))}
    try:
        sets["sentences"] = list(sentences(12, max(copies // 4, 1)))
    except FileNotFoundError as error:
        print(f"Without Presidio's sentences: {error}")
    for name, given in {**sets, **handwritten()}.items():
        by = {confidence: measured(given, confidence, model) for confidence in CONFIDENCES}
        print(f"\n{name}: {len(given):,} with {sum(by[0.8]['all'].values.values()):,} values\n")
        print("| part | " + " | ".join(f"leak {one} | hidden {one}" for one in CONFIDENCES) + " |")
        print("|---" * (1 + 2 * len(CONFIDENCES)) + "|")
        for key in by[0.8]:
            cells = [f"{by[one][key].leak:.2f} | {by[one][key].over_redaction:.3f}" for one in CONFIDENCES]
            print(f"| {key} | " + " | ".join(cells) + " |")
        print("\n| type | " + " | ".join(f"precision {c} | recall {c} | leak {c}" for c in CONFIDENCES) + " |")
        print("|---" * (1 + 3 * len(CONFIDENCES)) + "|")
        for label in sorted(by[0.8]["all"].values):
            tallies = [by[one]["all"] for one in CONFIDENCES]
            cells = [
                f"{tally.right[label] / max(tally.named[label], 1):.2f} | {tally.hit[label] / tally.values[label]:.2f}"
                f" | {tally.readable[label] / tally.characters[label]:.2f}"
                for tally in tallies
            ]
            print(f"| `{label}` | " + " | ".join(cells) + " |")
