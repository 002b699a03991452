"""A seeded corpus with the position and type of every value in it: prose, forms and look-alikes."""

import random
from dataclasses import dataclass

from tests.support.redaction.values import FIRST, MAKERS, name

_WORDS = (
    *("the", "report", "shows", "that", "results", "from", "this", "quarter", "were", "better", "than", "expected"),
    *("because", "customers", "returned", "and", "costs", "fell", "while", "new", "sites", "opened", "in", "several"),
    *("regions", "which", "led", "to", "more", "orders", "fewer", "complaints", "about", "late", "deliveries"),
)
# Texts below a closing that are no person's name.
_NO_NAMES = (
    *("The Support Team", "Your Customer Service", "Please find the file below", "Sent from my phone", "Example GmbH"),
    *("we look forward to it", "Attachments", "2 files", "Sales and Marketing", "Hope to hear from you", "ACME"),
)
_SENTENCES = (
    "Please note {} for this case.",
    "We were given {} yesterday, thank you.",
    "As agreed ({}), the rest follows.",
    "Is {} still right?",
    "They sent {} and left.",
)
_CLOSINGS = (
    *("Regards,", "Best regards,", "Kind regards", "Best wishes,\n", "Yours sincerely,\n\n", "Thanks,", "Cheers,"),
    *("Many thanks and kind regards,", "Mit freundlichen Gr\u00fc\u00dfen", "Viele Gr\u00fc\u00dfe,", "Cordialement,"),
    *("Saludos,", "Cordiali saluti,", "Pozdrawiam", "Thank you,", "-- ", "> Best,\n> ", "All the best."),
)
_NAMED = ("Their {} is {}.", "{}: {}", "Please check the {} {} again.", "{} = {}")
_LOOK_ALIKES = (
    lambda rng: f"order {rng.randrange(10**9, 2 * 10**9)}",
    lambda rng: f"version {rng.randrange(9)}.{rng.randrange(9)}.{rng.randrange(9)}",
    lambda rng: f"commit {rng.getrandbits(160):040x}",
    lambda rng: f"ticket {rng.randrange(10**6)}-{rng.randrange(10**3)}",
    lambda rng: f"sku {rng.choice('ABC')}{rng.randrange(10**7)}",
    lambda rng: f"total {rng.randrange(10**7):,}.{rng.randrange(100):02d} EUR",
    lambda rng: f"trace {rng.randrange(10**15, 10**16)}",
    lambda rng: f"at {rng.uniform(0, 99):.6f}, {rng.uniform(0, 99):.6f}",
    lambda rng: f"step {rng.choice(['std::vector', 'a::b', 'x@y', 'foo(1, 2)', '#4111'])}",
    lambda rng: f"below.\n{rng.choice(_CLOSINGS)}\n{rng.choice(_NO_NAMES)}\nThis",
    lambda rng: f"ids {rng.randrange(100, 999)} {rng.randrange(100, 999)} {rng.randrange(1000, 9999)}",
)


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text, and (start, end, entity type) of every value."""

    text: str
    labels: tuple[tuple[int, int, str], ...]


def corpus(seed: int, values: int) -> LabelledText:
    """Returns `values` values of every type, half of them beside words that name them, among as many look-alikes."""
    rng = random.Random(seed)
    order = [entity for entity in MAKERS for _ in range(values)]
    rng.shuffle(order)
    parts: list[str] = []
    labels: list[tuple[int, int, str]] = []
    size = 0
    for entity in order:
        make, words = MAKERS[entity]
        value = make(rng)
        if entity == "PERSON below a closing":
            sentence = f"\n{rng.choice(_CLOSINGS)}\n{{}}{rng.choice(['', ', Head of Sales', ' - Example Ltd'])}\n"
        elif entity == "PERSON" and rng.random() < 0.4:
            sentence = f"{rng.choice(['Dr. ', 'Mr ', 'Ms. ', 'Dear '])}{{}} wrote."
        elif rng.random() < 0.5:
            template = rng.choice(_NAMED)
            sentence = template.replace("{}", words, 1)
        else:
            sentence = rng.choice(_SENTENCES)
        prefix = " ".join(rng.choices(_WORDS, k=rng.randrange(3, 12))).capitalize() + ". "
        before = prefix + sentence.partition("{}")[0]
        labels.append((size + len(before), size + len(before) + len(value), entity))
        line = prefix + sentence.replace("{}", value) + f" See {rng.choice(_LOOK_ALIKES)(rng)} too.\n"
        parts.append(line)
        size += len(line)
    return LabelledText("".join(parts), tuple(labels))


def prose(size: int) -> str:
    """Returns text without values."""
    rng = random.Random(1)
    lines = (" ".join(rng.choices(_WORDS, k=14)).capitalize() + ".\n" for _ in range(size // 60))
    return "".join(lines)[:size]


def log(size: int) -> str:
    """Returns lines of a server's log without values."""
    rng = random.Random(2)
    lines = (
        f"ts={rng.randrange(10**9, 2 * 10**9)} level=info req={rng.getrandbits(64):016x} "
        f"path=/v1/items/{rng.randrange(10**6)} ms={rng.uniform(0, 100):.3f} status=200 bytes={rng.randrange(10**5)}\n"
        for _ in range(size // 90)
    )
    return "".join(lines)[:size]


def table(size: int) -> str:
    """Returns CSV rows of people; seven of nine cells are values."""
    rng = random.Random(3)
    header = "id,first_name,name,email,phone,ssn,birth_date,balance,ip\n"
    columns = ("EMAIL_ADDRESS", "PHONE_NUMBER", "US_SSN", "DATE_TIME", "IP_ADDRESS")
    lines = []
    made = len(header)
    while made < size:
        mail, phone, ssn, born, ip = (MAKERS[entity][0](rng) for entity in columns)
        lines.append(
            f'{rng.randrange(10**6)},{rng.choice(FIRST)},"{name(rng)}",{mail},{phone},{ssn},"{born}",'
            f"{rng.uniform(0, 999):.2f},{ip}\n"
        )
        made += len(lines[-1])
    return header + "".join(lines)
