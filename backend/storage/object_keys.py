"""Keys of stored objects."""


def run_prefix(run_id: str) -> str:
    """Returns the prefix of all objects of a run."""
    return f"runs/{run_id}/"


def run_of(key: str) -> str:
    """Returns the id of the run that an object belongs to."""
    return key.split("/")[1]


def object_key(run_id: str, name: str) -> str:
    """Returns the key of one object of a run; `name` is an id made by this service, as an output id.

    A step's log is `logs/<step>-<attempt>`: a handle of the manifest, of lowercase letters, digits and dashes.
    """
    return run_prefix(run_id) + name
