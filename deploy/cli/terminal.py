"""Escapes text for terminals."""


def printable(text: str, *, lines: bool = False) -> str:
    """Returns text with control characters and lone surrogates escaped; with `lines`, line ends stay."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or (lines and char == "\n") else char.encode("unicode_escape").decode()
        for char in text
    )
