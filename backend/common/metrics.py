"""The metrics of backends and workers, which docs/metrics.md explains."""

from typing import Final

from backend.common.states import RunStatus
from contract import failure_codes
from telemetry import Counter, Family, Gauge, Histogram, NamedCounter, TimedCounter, UpDownCounter

_WORK_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)

NO_REASON: Final = "none"
BY_THE_AGENT: Final = "agent"
"""The label of exceptions that an agent itself raised, whose names may be anything."""

GRPC_CALLS: Final = TimedCounter(
    Counter("grpc_calls_total", "Calls of unary RPCs.", ("method", "code")),
    Histogram("grpc_call_seconds", "Time in a unary RPC.", ("method",)),
)
GRPC_STREAMS_ENDED: Final = Counter("grpc_streams_ended_total", "Streaming RPCs that ended.", ("method", "code"))
GRPC_STREAMS: Final = UpDownCounter("grpc_streams", "Streaming RPCs under way.", ("method",))

DATABASE_UP: Final = Gauge("database_up", "1 where the database answered this scrape in time, else 0.")
DATABASE_CONNECTIONS: Final = Gauge("database_connections", "Connections to PostgreSQL.", ("state",))
DATABASE_CONNECTIONS_LIMIT: Final = Gauge("database_connections_limit", "Most connections of this process.")
DATABASE_WAIT: Final = Histogram("database_connection_wait_seconds", "Wait for a connection to PostgreSQL.")
DATABASE_WRITE: Final = Histogram("database_write_seconds", "From a change to its durable commit, or its failure.")
DATABASE_QUEUE: Final = Gauge("database_changes_waiting", "Changes that wait for SQLite's writer.")
DATABASE_RETRIES: Final = Counter(
    "database_retries_total", "Work repeated on another connection.", ("reason",), known=[("lost",), ("undone",)]
)
DATABASE_ERRORS: Final = Counter(
    "database_errors_total",
    "Database work that failed.",
    ("kind",),
    known=[("unreachable",), ("lost",), ("outcome_unknown",), ("statement",), ("commit",)],
)

RUNS_STARTED: Final = Counter("runs_started_total", "Runs recorded.")
RUNS_ENDED: Final = Counter(
    "runs_ended_total",
    "Runs closed, by final status and failure code.",
    ("status", "reason"),
    known=[
        (RunStatus.COMPLETED, NO_REASON),
        (RunStatus.CANCELLED, NO_REASON),
        *((RunStatus.FAILED, code) for code in failure_codes.ALL),
    ],
)
RUNS_ERASED: Final = Counter("runs_erased_total", "Runs whose data was erased, by callers or by retention.")

RUNS: Final = Gauge("runs", "Runs in flight, by status.", ("status",))
SEGMENTS_QUEUED: Final = Gauge("segments_queued", "Segments that no process executes yet.", ("state",))
OLDEST_QUEUED: Final = Gauge("oldest_queued_segment_seconds", "How long the oldest queued segment has waited.")
START_WAIT: Final = Gauge("start_wait_seconds", "The longest time that a run started now will probably wait.")
APPROVALS: Final = Gauge("approvals_pending", "Approvals that wait for a person.")
SWEEPS: Final = Gauge("final_sweeps_pending", "Finished runs whose outputs are still to be swept.")
REMOVALS: Final = Gauge("removals_pending", "Objects still to be deleted from the object store.", ("kind",))
PUBLICATIONS: Final = Gauge("publications_pending", "Publications to knowledge graphs still to be made or removed.")
MODEL_CALLS: Final = NamedCounter("model_calls_total", "Calls of steps that a model answered.", ("model",))
MODEL_TOKENS: Final = NamedCounter("model_tokens_total", "Tokens of calls that a model answered.", ("model", "kind"))
MODEL_COST: Final = NamedCounter("model_cost_microusd_total", "Price of calls, in 1/1,000,000 USD.", ("model",))
MODEL_UNPRICED: Final = NamedCounter("model_unpriced_calls_total", "Answered calls without a known price.", ("model",))

WORKERS: Final = Gauge("workers", "Processes that hold a lease.")
WORKERS_SLOTS: Final = Gauge("workers_step_slots", "Step slots of processes that accept new segments.")

STEP_SECONDS: Final = Histogram(
    "step_seconds", "Time of one attempt of a step.", ("agent", "outcome"), bounds=_WORK_SECONDS
)
STEP_FAILURES: Final = Counter(
    "step_failures_total",
    "Attempts that failed, by cause.",
    ("type",),
    known=[(cause,) for cause in ("InternalError", "ProcessDied", "ProtocolError", "SandboxFailed", BY_THE_AGENT)],
)
STEP_SLOTS: Final = Gauge("step_slots", "Steps that this process runs at once.")
STEP_SLOTS_USED: Final = Gauge("step_slots_in_use", "Steps that this process runs now.")
SEGMENTS_RUNNING: Final = Gauge("segments_running", "Segments that this process executes.")

LEASE_RENEWALS: Final = Counter(
    "lease_renewals_total", "Renewals of this process's lease.", ("outcome",), known=[("renewed",), ("failed",)]
)
LEASES_LOST: Final = Counter("leases_lost_total", "Leases lost, with all steps that ran under them.")
RUNS_REAPED: Final = Counter(
    "sweeper_runs_closed_total",
    "Runs that the sweeper closed.",
    ("reason",),
    known=[(reason,) for reason in ("orphaned", "launch_failed", "wall_clock_limit_reached", RunStatus.CANCELLED)],
)
BACKGROUND_FAILURES: Final = Counter(
    "background_failures_total", "Rounds of background work that failed and are retried.", ("work",)
)
REMOVAL_FAILURES: Final = Counter("removal_failures_total", "Removals that failed and are retried.")

WEBHOOK_ATTEMPTS: Final = Counter(
    "webhook_attempts_total",
    "Attempts to deliver a message to a webhook.",
    ("outcome",),
    known=[
        (outcome,)
        for outcome in (
            "delivered",
            "status",
            "redirect",
            "timeout",
            "connection",
            "tls",
            "name",
            "address",
            "answer",
        )
    ],
)
WEBHOOK_SECONDS: Final = Histogram("webhook_attempt_seconds", "Time of one attempt.")
WEBHOOKS_PAUSED: Final = Counter(
    "webhooks_paused_total", "Webhooks paused by the service.", ("reason",), known=[("unreachable",), ("gone",)]
)
WEBHOOKS: Final = Gauge("webhook_deliveries_pending", "Messages to webhooks still to be delivered.")

NOTIFICATION_ATTEMPTS: Final = Counter(
    "notification_attempts_total", "Attempts to send a notification to a target.", ("target", "outcome")
)

REDACTION_SECONDS: Final = Histogram(
    "redaction_seconds", "Time of one sweep for personal data.", ("what",), bounds=_WORK_SECONDS
)
REDACTION_BYTES: Final = Counter("redaction_file_bytes_total", "Bytes of the files swept.")
REDACTION_FAILURES: Final = Counter(
    "redaction_failures_total",
    "Sweeps that could not be carried out.",
    ("what",),
    known=[("values",), ("names",), ("file",)],
)
FINAL_SWEEP_FAILURES: Final = Counter("final_sweep_failures_total", "Final sweeps that failed and are retried.")

OBJECTS_SECONDS: Final = Histogram("object_store_seconds", "Time of one operation.", ("operation",))
OBJECTS_ERRORS: Final = Counter(
    "object_store_errors_total",
    "Operations that failed after all retries.",
    ("operation",),
    known=[
        (name,) for name in ("put_file", "put_bytes", "open_range", "read", "delete", "delete_prefix", "delete_chosen")
    ],
)
OBJECTS_RETRIES: Final = Counter("object_store_retries_total", "Requests to the bucket that were retried.")

DISK_TOTAL: Final = Gauge("disk_bytes", "Size of a file system that the process writes to.", ("folder",))
DISK_FREE: Final = Gauge("disk_free_bytes", "Bytes free there.", ("folder",))
DISK_FILLING: Final = Gauge(
    "disk_filling_bytes_per_hour", "How fast it fills, over the last hour at most; 0 where it does not.", ("folder",)
)

_COUNTED: Final = tuple(measure for measure in tuple(globals().values()) if isinstance(measure, Counter | Histogram))


def count_model_call(model: str, input_tokens: int, output_tokens: int, cached_tokens: int, cost: float | None) -> None:
    """Counts a call that a model answered; `cost` are millionths of a US dollar, None where the price is unknown."""
    MODEL_CALLS.add(model)
    for kind, tokens in (("input", input_tokens), ("output", output_tokens), ("cached", cached_tokens)):
        MODEL_TOKENS.add_many(tokens, model, kind)
    if cost is None:
        MODEL_UNPRICED.add(model)
    else:
        MODEL_COST.add_many(cost, model)


def counted() -> list[Family]:
    """Returns the metrics that are counted as events happen; the others are computed when they are read."""
    return [*GRPC_CALLS.collect(), *(measure.collect() for measure in _COUNTED)]
