"""Fields of the form that starts a run: declared parameters, uploaded files, and values of an earlier run."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from console.forms.multipart import UPLOAD_FIELD
from console.forms.staging import FILES_PREFIX
from console.forms.urlencoded import whole_number
from console.rendering import formatting
from console.rendering.formatting import json_lines
from console.visit import Visit
from contract.refusals import Refusal
from workflow_api.v1.pii_policy_pb2 import PII_MODE_OFF
from workflow_api.v1.runs_pb2 import Run
from workflow_api.v1.uploads_pb2 import GetUploadRequest, RemoveUploadedFileRequest, Upload, UploadedFile

PREFIX: Final = "p."
"""Prefix of parameters' fields, which tells them from the form's own fields."""

_LONG: Final = 200
_SHOWN: Final = 60
_NUMBERS: Final = {"integer": "a whole number", "number": "a number"}

Declared = Mapping[str, Any]

_UPLOADED: Final = "upload://"
ERASED: Final = "The data of this run is erased, so there are no inputs to start it with again."

FOLDER: Final = "uploads"
"""Parameter name of uploaded files that belong to no declared parameter."""

_GONE: Final = "The files are gone, as they wait for an hour: choose them again."


class StartField(NamedTuple):
    """A field of the form.

    Attributes:
        name: Name of the parameter.
        kind: Kind of input: `text`, `area`, `json`, `number`, `date`, `choice` or `s3_prefix`.
        value: Text of the field.
        options: Values and labels of a choice.
        step: The `step` attribute of a number input.
        excerpt: For invalid JSON, the line with the error and a mark below its place.
    """

    name: str
    kind: str
    required: bool
    value: str
    help: str
    options: Sequence[tuple[str, str]] = ()
    step: str = ""
    minimum: str = ""
    maximum: str = ""
    min_length: int | None = None
    max_length: int | None = None
    error: str = ""
    excerpt: str = ""


class JsonPlaceError(ValueError):
    """Raised for invalid JSON: the message has line and column, `excerpt` shows the place."""

    def __init__(self, message: str, excerpt: str) -> None:
        super().__init__(message)
        self.excerpt = excerpt


def start_fields(
    declared: Sequence[Declared], typed: Mapping[str, str], problems: Mapping[str, str]
) -> list[StartField]:
    """Returns the fields with their texts and the problems of parameters, by name."""
    return [_field(each, typed.get(each["name"], ""), problems.get(each["name"], "")) for each in declared]


def initial_texts(declared: Sequence[Declared], values: Mapping[str, Any]) -> dict[str, str]:
    """Returns the fields' texts for these values; empty for parameters without a value."""
    texts = {each["name"]: _text(each, values[each["name"]]) for each in declared if each["name"] in values}
    return {name: text for name, text in texts.items() if text or values[name] is not None}


def carried_texts(shown: Sequence[Declared], chosen: Sequence[Declared], typed: Mapping[str, str]) -> dict[str, str]:
    """Returns typed texts for the fields of another version, for parameters that both versions have.

    A text stays unchanged if both fields are of one kind, or if the text is not valid.
    """
    before = {each["name"]: each for each in shown}
    texts: dict[str, str] = {}
    for each in chosen:
        if (old := before.get(each["name"])) is None:
            continue
        text = typed.get(each["name"], "")
        if _kind(old) != _kind(each) and text.strip():
            with suppress(ValueError):
                text = _text(each, json.loads(_json(old, text)))
        texts[each["name"]] = text
    return texts


def json_of(declared: Sequence[Declared], typed: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Returns the parameters as JSON, without empty texts, and the problems of invalid texts.

    Numbers and JSON keep their spelling, so that no digit is lost.
    """
    members: list[str] = []
    problems: dict[str, str] = {}
    for each in declared:
        text = typed.get(each["name"], "")
        if not text.strip():
            continue
        try:
            members.append(f"{json.dumps(each['name'])}: {_json(each, text)}")
        except ValueError as error:
            problems[each["name"]] = str(error)
    return "{" + ", ".join(members) + "}", problems


def read_json(text: str) -> None:
    """Reads JSON only to check it.

    Raises:
        JsonPlaceError: the text is not valid JSON.
    """
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        # Split at LF only, as the JSON error counts lines: other line ends may occur within a string.
        line = text.split("\n")[error.lineno - 1]
        start = max(0, error.colno - 1 - _SHOWN // 2)
        excerpt = f"{line[start : start + _SHOWN]}\n{' ' * (error.colno - 1 - start)}^"
        message = f"is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        raise JsonPlaceError(message, excerpt) from None
    except (ValueError, RecursionError) as error:
        raise JsonPlaceError(f"is not JSON: {error}", "") from None


def parameter_texts(run: Run, declared: Sequence[Declared]) -> dict[str, str]:
    """Returns the fields' texts for the run's parameters, without uploaded files, which belong to the run."""
    texts = initial_texts(declared, json.loads(run.parameters or "{}"))
    return {name: text for name, text in texts.items() if not text.startswith(_UPLOADED)}


def had_uploads(run: Run) -> bool:
    """Returns whether files were uploaded for the run."""
    return any(entry["uri"].startswith(_UPLOADED) for entry in json.loads(run.inputs_manifest or "[]"))


def other_texts(run: Run) -> dict[str, str]:
    """Returns the texts of the form's own fields; labels are lines `name=value`."""
    labels = "\n".join(f"{name}={value}" for name, value in sorted(run.summary.labels.items()))
    return {"input_text": run.input_text, "client_reference": run.summary.client_reference, "labels": labels}


def other_version(run: Run, shown: int, active: int) -> tuple[int, str] | None:
    """Returns the number and description of the version that the form offers in place of the shown one."""
    if shown != run.summary.version:
        return run.summary.version, "that of the run"
    return None if shown == active else (active, "the active one")


def has_policy(run: Run) -> bool:
    """Returns whether the run's policy redacts or counts personal data."""
    return run.HasField("pii_policy") and run.pii_policy.mode != PII_MODE_OFF


class ChosenFile(NamedTuple):
    """A file as the form shows it."""

    number: int
    name: str
    size: str
    content: str


class ChosenFiles(NamedTuple):
    """Files by parameter, and problems by parameter.

    Attributes:
        taken: An upload that the form named and that is gone: expired, or taken by a run.
    """

    upload_id: str
    all: Mapping[str, Sequence[ChosenFile]]
    problems: Mapping[str, str]
    taken: str = ""

    @property
    def with_expiry_problem(self) -> "ChosenFiles":
        """Returns the chosen files, with a problem where the upload has expired."""
        return self._replace(problems={FOLDER: _GONE, **self.problems}) if self.taken else self


NO_FILES: Final = ChosenFiles("", {}, {})


async def chosen_files(visit: Visit) -> ChosenFiles:
    """Returns the files of the upload that the form names, and the reasons for refused files."""
    problems = {name.removeprefix(FILES_PREFIX): problem for name, problem in visit.refused_files.items()}
    upload_id = visit.sent(UPLOAD_FIELD)
    if not upload_id:
        return ChosenFiles("", {}, problems)
    try:
        upload: Upload = await visit.services.call("UploadsService/GetUpload", GetUploadRequest(upload_id=upload_id))
    except Refusal as refusal:
        if refusal.code not in {"not_found", "invalid_request"}:
            raise
        return ChosenFiles("", {}, problems, upload_id)
    found: dict[str, list[ChosenFile]] = {}
    for file in upload.files:
        found.setdefault(file.parameter, []).append(_shown(file))
    return ChosenFiles(upload_id, found, problems)


async def drop(visit: Visit) -> None:
    """Removes the file whose button was pressed."""
    number = whole_number(visit.sent("drop"))
    if number is None or number < 1:
        return
    request = RemoveUploadedFileRequest(upload_id=visit.sent(UPLOAD_FIELD), number=number)
    try:
        await visit.services.call("UploadsService/RemoveUploadedFile", request)
    except Refusal as refusal:
        if refusal.code not in {"not_found", "invalid_request"}:
            raise


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a value of JSON")


def _json(declared: Declared, text: str) -> str:
    if declared.get("enum") is not None or declared["type"] == "boolean":
        # Choices are sent as JSON.
        read_json(text)
        return text
    if declared["type"] in _NUMBERS:
        number = text.strip()
        try:
            value = json.loads(number, parse_constant=_refuse_constant)
        except ValueError:
            value = None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"must be {_NUMBERS[declared['type']]}")
        return number
    if declared["type"] == "json":
        read_json(text)
        return text
    return json.dumps(text.strip() if declared["type"] in {"date", "s3_prefix"} else text)


def _field(declared: Declared, value: str, error: str) -> StartField:
    excerpt = ""
    if error and declared["type"] == "json" and value.strip():
        try:
            read_json(value)
        except JsonPlaceError as place:
            excerpt = place.excerpt
    numeric = declared["type"] in _NUMBERS
    return StartField(
        name=declared["name"],
        # A one-line input would lose the line breaks of a value.
        kind="area" if _kind(declared) == "text" and "\n" in value else _kind(declared),
        required=bool(declared.get("required")) and declared.get("default") is None,
        value=value,
        help=_help(declared),
        options=_options(declared),
        step={"integer": "1", "number": "any"}.get(declared["type"], ""),
        minimum=_bound(declared, "minimum") if numeric else "",
        maximum=_bound(declared, "maximum") if numeric else "",
        min_length=declared.get("min_length"),
        max_length=declared.get("max_length"),
        error=error,
        excerpt=excerpt,
    )


def _kind(declared: Declared) -> str:
    if declared.get("enum") is not None or declared["type"] == "boolean":
        return "choice"
    if declared["type"] == "string":
        return "area" if (declared.get("max_length") or 0) > _LONG else "text"
    return "number" if declared["type"] in _NUMBERS else str(declared["type"])


def _options(declared: Declared) -> list[tuple[str, str]]:
    values = declared.get("enum")
    if values is None:
        if declared["type"] != "boolean":
            return []
        values = [True, False]
    none = "choose" if declared.get("required") and declared.get("default") is None else "not given"
    if declared.get("default") is not None:
        none = f"default: {_label(declared['default'])}"
    return [("", none), *((json.dumps(value), _label(value)) for value in values)]


def _label(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _help(declared: Declared) -> str:
    parts = [declared.get("description") or ""]
    if declared.get("default") is not None and _kind(declared) != "choice":
        parts.append(f"Empty means {json.dumps(declared['default'], ensure_ascii=False)}.")
    low, high = _bound(declared, "minimum"), _bound(declared, "maximum")
    if low and high:
        parts.append(f"From {low} to {high}.")
    elif low or high:
        parts.append(f"At least {low}." if low else f"At most {high}.")
    if declared.get("pattern") is not None:
        parts.append(f"All of it matches {declared['pattern']}.")
    if declared["type"] == "s3_prefix":
        parts.append("Of the form s3://bucket/prefix/.")
    return " ".join(part for part in parts if part)


def _bound(declared: Declared, name: str) -> str:
    bound = declared.get(name)
    return "" if bound is None else json.dumps(bound)


def _text(declared: Declared, value: Any) -> str:
    if value is None and declared["type"] != "json":
        return ""
    if _kind(declared) == "choice" or declared["type"] in _NUMBERS:
        return json.dumps(value)
    if declared["type"] == "json":
        return json_lines(json.dumps(value, ensure_ascii=False))
    return value if isinstance(value, str) else json.dumps(value)


def _shown(file: UploadedFile) -> ChosenFile:
    zipped = file.name.lower().endswith(".zip")
    files = "1 file" if file.files == 1 else f"{file.files:,} files"
    content = f"{files}, {formatting.size(file.files_bytes)} expanded" if zipped else ""
    return ChosenFile(file.number, file.name, formatting.size(file.size_bytes), content)
