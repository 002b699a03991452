"""`workflow-api completion`: scripts for shells, and candidates for the next word of a command line.

Candidates are commands, options, and values that the backend knows.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final, NamedTuple

import typer
import typer.main

from deploy.cli.options import Json
from deploy.cli.output.printing import print_json
from deploy.cli.output.terminal import printable

_PREFIX_LENGTH: Final = 60


class Candidate(NamedTuple):
    """A word that may come next, with an explanation."""

    value: str
    help: str = ""


Load = Callable[[str], typer.Typer]
"""Returns the command line with one command imported."""


def completions(line: str, load: Load) -> Iterator[Candidate]:
    """Yields the candidates for the end of a command line, which begins with the name of the program."""
    words, incomplete = split_line(line)
    node: Any = typer.main.get_command(load(words[1] if len(words) > 1 else ""))
    path: list[str] = []
    positional = 0
    rest = iter(words[1:])
    options: dict[str, str] = {}
    for word in rest:
        option = _option(node, word.partition("=")[0])
        if option is not None:
            if not option.is_flag and "=" not in word:
                value = next(rest, None)
                if value is None:
                    yield from _matching(_values(option, path, {**options}, incomplete), incomplete)
                    return
                options[option.opts[0]] = value
        elif word in getattr(node, "commands", {}):
            node = node.commands[word]
            path.append(word)
        elif not word.startswith("-"):
            positional += 1
    if incomplete.startswith("-"):
        yield from _matching(_options(node), incomplete)
    elif hasattr(node, "commands"):
        found = (Candidate(name, _short(each.help)) for name, each in node.commands.items())
        yield from _matching(found, incomplete)
    else:
        arguments = [parameter for parameter in node.params if parameter.param_type_name == "argument"]
        if arguments and (positional < len(arguments) or arguments[-1].nargs == -1):
            argument = arguments[min(positional, len(arguments) - 1)]
            yield from _matching(_values(argument, path, options, incomplete), incomplete)


def split_line(line: str) -> tuple[list[str], str]:
    """Returns the complete words of a line, and the last one, which may be empty; quotes may be open."""
    for closing in ("", "'", '"'):
        try:
            words = shlex.split(line + closing)
        except ValueError:
            continue
        ended = not closing and (not line or (line[-1].isspace() and not line.endswith("\\ ")))
        return (words, "") if ended or not words else (words[:-1], words[-1])
    return line.split(), ""


def _matching(candidates: Iterator[Candidate], incomplete: str) -> Iterator[Candidate]:
    folded = incomplete.casefold()
    return (each for each in candidates if each.value.casefold().startswith(folded))


def _options(node: Any) -> Iterator[Candidate]:
    for parameter in node.params:
        for name in parameter.opts:
            if name.startswith("--"):
                yield Candidate(name, _short(parameter.help))


def _option(node: Any, word: str) -> Any:
    return next((each for each in node.params if word.startswith("-") and word in each.opts), None)


def _values(parameter: Any, path: list[str], options: Mapping[str, str], incomplete: str) -> Iterator[Candidate]:
    """Yields the values of a parameter: those that its metavar lists, or those that the backend knows."""
    metavar = parameter.metavar or ""
    if "|" in metavar and metavar.islower():
        yield from (Candidate(value) for value in metavar.split("|"))
        return
    from deploy.cli.known_values import known_values

    for value, text in known_values(metavar, path, options, incomplete):
        yield Candidate(printable(value), _short(printable(text)))


def _short(text: str | None) -> str:
    line = (text or "").strip().partition("\n")[0]
    return line if len(line) <= _PREFIX_LENGTH else f"{line[: _PREFIX_LENGTH - 1]}…"


_BASH: Final = """\
_workflow_api() {
    local value help
    COMPREPLY=()
    while IFS=$'\\t' read -r value help; do
        if [[ ${COMP_WORDS[COMP_CWORD]} != [\\'\\"]* ]]; then
            value="$(printf '%q' "$value")"
        fi
        COMPREPLY+=("$value")
    done < <(_WORKFLOW_API_COMPLETE="${COMP_LINE:0:COMP_POINT}" workflow-api 2>/dev/null)
}
complete -o default -o nosort -F _workflow_api workflow-api
"""
_ZSH: Final = """\
#compdef workflow-api
_workflow_api() {
    local -a values
    local value help
    while IFS=$'\\t' read -r value help; do
        values+=("${value//:/\\\\:}${help:+:$help}")
    done < <(_WORKFLOW_API_COMPLETE="${words[1,CURRENT]}" workflow-api 2>/dev/null)
    if (( ${#values} )); then
        _describe 'workflow-api' values
    else
        _files
    fi
}
compdef _workflow_api workflow-api
"""
_FISH: Final = """\
function __workflow_api_complete
    set -l found (env _WORKFLOW_API_COMPLETE=(commandline -cp | string collect) workflow-api 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c workflow-api -f -a '(__workflow_api_complete)'
"""
SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def command(
    shell: Annotated[str, typer.Argument(metavar="|".join(SCRIPTS), help="The shell.")], as_json: Json = False
) -> None:
    """Print a script that makes a shell complete this command.

    For bash put `eval "$(workflow-api completion bash)"` into ~/.bashrc, for zsh the same with zsh into ~/.zshrc after
    compinit; for fish write the script to ~/.config/fish/completions/workflow-api.fish.
    """
    if shell not in SCRIPTS:
        raise typer.BadParameter(f"must be one of {', '.join(SCRIPTS)}, not {shell!r}")
    if as_json:
        print_json({"shell": shell, "script": SCRIPTS[shell]})
    else:
        print(SCRIPTS[shell], end="")
