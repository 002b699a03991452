"""`workflow-api completion`: what makes a shell complete commands, options, and ids and names of the deployment."""

from typing import Annotated, Final

import typer

from deploy.cli.options import Json
from deploy.cli.output.printing import print_json

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
