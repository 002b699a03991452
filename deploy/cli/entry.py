"""Entry of the `workflow-api` command, which answers health probes before it imports anything large."""

import sys


def main() -> None:
    """Runs the process's command line and exits with its code."""
    if sys.argv[1:2] == ["health"]:
        from deploy.cli.health_probe import probe

        outcome = probe(sys.argv[2:])
        if isinstance(outcome, str):
            print(outcome)
            sys.exit(0)
        if outcome is not None:
            from deploy.cli.output.terminal import print_failure

            print_failure(outcome, as_json="--json" in sys.argv)
            sys.exit(1)
    from deploy.cli.main import main as command

    command()
