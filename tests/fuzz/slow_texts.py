"""Texts that are slow to redact: any text repeated, compared with the cost of text full of values."""

import functools
import time
from collections.abc import Callable, Iterator
from typing import Final

from redaction.redactor import Redactor
from tests.fuzz.target import Target
from tests.support.redaction.corpus import corpus
from tests.support.redaction.hostile import UNITS, hostile
from tests.support.work import calls_of

SIZE: Final = 4_096
CALLS_A_CHARACTER: Final = {0.8: 3.0, 0.5: 4.2}
"""By the least confidence. A function called costs about what two characters of prose do."""
# A fuzzer that follows what is run calls functions of its own.
_INSTRUMENTED: Final = 2.5
_TIMES_VALUES: Final = 8
"""Processor time, measured in turn; two is aimed at, and the slowest seed takes four."""
_TRIES: Final = 5


def check(data: bytes) -> None:
    """Reads a byte that chooses the confidence, and the UTF-8 of a text that is repeated."""
    if unit := data[1:].decode(errors="ignore"):
        check_unit(unit, 0.5 if data[0] % 2 else 0.8)


def check_unit(unit: str, confidence: float) -> None:
    """A text that repeats the unit calls few functions a character, and takes not much more time than values."""
    text = hostile(unit, SIZE)
    sweep = functools.partial(engine(confidence).text, text)
    sweep()
    calls = calls_of(sweep) / SIZE
    assert calls <= _INSTRUMENTED * CALLS_A_CHARACTER[confidence], f"{calls:.2f} calls a character"
    values = functools.partial(engine(confidence).text, corpus(8, 4).text[:SIZE])
    values()
    quick = any(_seconds(sweep) < _TIMES_VALUES * _seconds(values) for _ in range(_TRIES))
    assert quick, f"takes {_TIMES_VALUES} times what values do"


@functools.cache
def engine(confidence: float) -> Redactor:
    return Redactor({"mode": "redact", "min_confidence": confidence})


def _seconds(do: Callable[[], object]) -> float:
    began = time.process_time()
    do()
    return time.process_time() - began


def seeds() -> Iterator[bytes]:
    """The hostile texts of the benchmark."""
    for unit in UNITS:
        yield b"\0" + unit.encode()
        yield b"\1" + unit.encode()


TARGET = Target(
    name="slow_texts",
    check=check,
    seeds=seeds,
    words=(
        *(b"http://", b"www.", b"@", b"::", b"0x", b"bc1", b"+1", b"-- \n", b"Regards,\n", b"Dr. ", b"Name: "),
        *(b"phone ", b"ssn ", b"card ", b"passport ", b"born ", b"4111 ", b"DE22 ", b"2020-01-01", b"10.", b"Jan 1 "),
    ),
    longest=2_048,
)
