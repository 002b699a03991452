"""Where the stored objects of a run are."""


def run_prefix(run_id: str) -> str:
    """The prefix that everything stored for a run is below."""
    return f"runs/{run_id}/"


def run_of(key: str) -> str:
    """The run whose object has this key."""
    return key.split("/")[1]


def object_key(run_id: str, name: str) -> str:
    """The key of one object of a run; `name` is an id of our own, as an output id.

    A step's log is `logs/<step>-<attempt>`: a handle of the manifest, of lowercase letters, digits and dashes.
    """
    return run_prefix(run_id) + name
