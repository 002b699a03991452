"""Patterns of LIKE for text as it is, with a backslash as the escape."""


def containing(text: str) -> str:
    """Returns the pattern of what has a text anywhere."""
    return f"%{_literal(text)}%"


def beginning(text: str) -> str:
    """Returns the pattern of what begins with a text."""
    return f"{_literal(text)}%"


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
