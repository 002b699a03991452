"""What may be written to a terminal."""


def printable(text: str, *, lines: bool = False) -> str:
    """Text with its control characters and half characters escaped; with `lines`, line ends stay."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or (lines and char == "\n") else char.encode("unicode_escape").decode()
        for char in text
    )
