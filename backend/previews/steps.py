"""What a step returned, and the names of its files, swept where the run's PII policy redacts and nothing has yet."""

from typing import Final, NamedTuple

from backend.previews import sql
from backend.redaction.formats.preview import MOST_CHARS
from backend.reviews.sweeping import ReviewSweep
from backend.storage.tables.outputs import OutputRow
from workflow_api.v1 import previews_pb2
from workflow_api.v1.reviews_pb2 import ReviewText

MOST_FILES: Final = 50


class ShownStep(NamedTuple):
    """A step as it was read, with its first files."""

    run: sql.PreviewedRunRow
    step: sql.PreviewedStepRow
    files: list[OutputRow]
    files_total: int
    released: bool

    @property
    def name(self) -> str:
        """What changes whenever the preview may."""
        return f"{self.run.run_id}/{self.step.step}/{self.step.attempt}/{self.step.status}/{self.released}"


def needs_sweep(shown: ShownStep, sweep: ReviewSweep) -> bool:
    """Returns whether something of the step must be swept before it is shown."""
    value = shown.step.value is not None and not sweep.values_are_swept
    return sweep.redacts and (value or (bool(shown.files) and not shown.released))


def step_preview(shown: ShownStep, sweep: ReviewSweep) -> previews_pb2.StepPreview:
    """Returns the preview of a step; blocks while it is swept, and raises RedactionError."""
    value = shown.step.value
    if value is not None and not sweep.values_are_swept:
        value = sweep.json(value)
    names = [file.path for file in shown.files]
    if not shown.released:
        names = sweep.names(names)
    return previews_pb2.StepPreview(
        value=None if value is None else ReviewText(text=value[:MOST_CHARS], cut=len(value) > MOST_CHARS),
        files=[
            previews_pb2.StepFile(
                output_id=file.output_id, path=name, media_type=file.media_type, size_bytes=file.size_bytes
            )
            for file, name in zip(shown.files, names, strict=True)
        ],
        files_total=shown.files_total,
        redacted=sweep.redacts,
    )
