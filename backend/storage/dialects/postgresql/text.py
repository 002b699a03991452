"""Escapes U+0000, which JSON and callers' input may hold and PostgreSQL's text cannot."""

from typing import TYPE_CHECKING, Any, Final

from psycopg.types.string import StrDumper, TextLoader

if TYPE_CHECKING:
    import psycopg
    from psycopg.abc import Buffer

# A noncharacter, so that hardly any text has to be rewritten. "0" after it stands for U+0000, "1" for itself.
_ESCAPE: Final = "\ufffe"
_ESCAPED: Final = str.maketrans({"\0": f"{_ESCAPE}0", _ESCAPE: f"{_ESCAPE}1"})


def register_text(connection: "psycopg.Connection[Any]") -> None:
    """Has the connection store and return every text unchanged."""
    connection.adapters.register_dumper(str, _Dumper)
    for kind in ("text", "varchar"):
        connection.adapters.register_loader(kind, _Loader)


class _Dumper(StrDumper):
    def dump(self, obj: str) -> "Buffer | None":
        return super().dump(obj.translate(_ESCAPED) if "\0" in obj or _ESCAPE in obj else obj)


class _Loader(TextLoader):
    def load(self, data: "Buffer") -> bytes | str:
        text = super().load(data)
        if isinstance(text, str) and _ESCAPE in text:
            return text.replace(f"{_ESCAPE}0", "\0").replace(f"{_ESCAPE}1", _ESCAPE)
        return text
