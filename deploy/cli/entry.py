"""Entry of the `workflow-api` command: probes of health are answered before anything large is imported."""

import sys


def main() -> None:
    """Runs the process's command line and exits with its code."""
    if sys.argv[1:2] == ["health"]:
        from deploy.cli.health_probe import probe

        line = probe(sys.argv[2:])
        if line is not None:
            print(line)
            sys.exit(0)
    from deploy.cli.main import main as command

    command()
