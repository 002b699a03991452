"""Reports the progress of downloads to a function or on a terminal."""

import sys

from workflow_api_client.operations.outputs import Progress, Report


def reporter(progress: bool | Report) -> Report:
    """Returns the function to call as bytes arrive: the caller's, one that shows a line, or one that does nothing."""
    if progress is True:
        return show
    return progress or (lambda _: None)


def show(progress: Progress) -> None:
    """Rewrites one line on standard error."""
    done, total = progress.done_bytes, progress.total_bytes
    share = 100 * done // total if total else 100
    name = "".join(letter if letter.isprintable() else "?" for letter in progress.path)[-60:]
    end = "\n" if done >= total else ""
    sys.stderr.write(f"\r\x1b[K{share:3d}% of {total:,} bytes  {name}{end}")
    sys.stderr.flush()
