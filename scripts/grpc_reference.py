"""Writes the tables of docs/grpc.md from the options of the protos; with `--check` fails if they differ."""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

from contract.fields import SCOPE_SPELLINGS
from contract.refusals import BY_REASON, ErrorRule
from contract.routes import FILES
from workflow_api.v1 import options_pb2

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "grpc.md"
_TABLE: Final = re.compile(r"<!-- (?P<name>rpcs|errors) -->\n(?:\|[^\n]*\n)*")
_CODES: Final = {code.value[0]: code.name for code in grpc.StatusCode}


def with_tables(page: str) -> str:
    """Returns the page with both tables made from the protos.

    Raises:
        ValueError: the page lacks a table.
    """
    wanted = {"rpcs": _rpcs(), "errors": _errors()}
    if missing := wanted.keys() - {found["name"] for found in _TABLE.finditer(page)}:
        raise ValueError(f"docs/grpc.md needs one line `<!-- NAME -->` each for: {sorted(missing)}")
    return _TABLE.sub(lambda found: f"<!-- {found['name']} -->\n{wanted[found['name']]}", page)


def _rpcs() -> str:
    services = sorted(
        (service for file in FILES for service in file.services_by_name.values()), key=lambda service: service.name
    )
    head = "| Service | Roles | In the name of a key | Repeatable RPCs | Other RPCs |\n|---|---|---|---|---|\n"
    return head + "".join(row for service in services for row in _rows(service))


def _rows(service: ServiceDescriptor) -> Iterator[str]:
    """Yields a line for each set of callers of the service, with its RPCs."""
    by_callers: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for method in service.methods:
        rules = method.GetOptions().Extensions[options_pb2.method_rules]
        roles = ", ".join(sorted(f"`{_role(role)}`" for role in rules.callers))
        repeatable, others = by_callers.setdefault((roles, _key_requirement(rules)), ([], []))
        once = method.GetOptions().idempotency_level == MethodOptions.IDEMPOTENCY_UNKNOWN
        (others if once else repeatable).append(f"`{method.name}`{' (stream)' if method.server_streaming else ''}")
    for callers, columns in by_callers.items():
        yield _line(f"`{service.name}`", *callers, *(", ".join(column) for column in columns))


def _role(role: int) -> str:
    return options_pb2.CallerRole.Name(options_pb2.CallerRole.ValueType(role)).removeprefix("CALLER_ROLE_").lower()


def _key_requirement(rules: options_pb2.MethodRules) -> str:
    if rules.access == options_pb2.ACCESS_SCOPE:
        return f"scope `{SCOPE_SPELLINGS[rules.scope]}`"
    if rules.limited_by_key:
        return "any key"
    return {options_pb2.ACCESS_ANY_KEY: "any key", options_pb2.ACCESS_PUBLIC: "without one"}.get(rules.access, "")


def _errors() -> str:
    head = "| `reason` | Status | HTTP | Beside it |\n|---|---|---|---|\n"
    return head + "".join(_error(rule) for rule in sorted(BY_REASON.values(), key=lambda rule: rule.code))


def _error(rule: ErrorRule) -> str:
    details = ["`BadRequest`"] if rule.problem_list else []
    details += ["`PreconditionFailure`" for detail in rule.details if detail.list]
    details += [f"`{detail.name}`" for detail in rule.details if not detail.list and not detail.link]
    details += [f"`RetryInfo`, {rule.retry_after} s"] if rule.retry_after else []
    return _line(f"`{rule.code.upper()}`", f"`{_CODES[rule.grpc_code]}`", str(rule.http_status), ", ".join(details))


def _line(*cells: str) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells) + "\n"


def main() -> int:
    """Rewrites the page, or with `--check` compares it; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if something would change")
    check = parser.parse_args().check
    page = PAGE.read_text(encoding="utf-8")
    wanted = with_tables(page)
    if page != wanted and check:
        print("docs/grpc.md differs from the protos: run scripts/grpc_reference.py", file=sys.stderr)
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
