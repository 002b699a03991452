"""Comma-separated enum values of requests."""

from google.protobuf.descriptor import EnumDescriptor

from contract.spellings import spellings


def parse_enum_list(enum: EnumDescriptor, text: str) -> list[int]:
    """Returns the numbers of the values that a text names, each once, in the order of the enum.

    Raises:
        ValueError: the text names anything else; the message completes "must be …".
    """
    numbers = {spelling: number for number, spelling in spellings(enum).items() if spelling is not None}
    named = {part.strip() for part in text.split(",")}
    if not named <= numbers.keys():
        raise ValueError(f"a comma-separated list of {', '.join(numbers)}")
    return sorted(numbers[name] for name in named)
