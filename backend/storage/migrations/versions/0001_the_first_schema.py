"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "api_keys",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("deployment_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("secret_sha256", sa.Text(), nullable=False),
        sa.Column("previous_secret_sha256", sa.Text(), nullable=True),
        sa.Column("previous_secret_expires_at", sa.BigInteger(), nullable=True),
        sa.Column("external_id_sha256", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("access_mode", sa.Text(), nullable=False),
        sa.Column("access_workflow_ids", sa.Text(), nullable=False),
        sa.Column("source_allow_list", sa.Text(), nullable=False),
        sa.Column("start_hour", sa.Integer(), nullable=True),
        sa.Column("end_hour", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("rate_limit_rpm", sa.Integer(), nullable=False),
        sa.Column("daily_run_quota", sa.Integer(), nullable=False),
        sa.Column("max_concurrent_runs", sa.Integer(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_api_keys")),
    )
    op.create_table(
        "audit_records",
        sa.Column("audit_id", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("audit_id", name=op.f("pk_audit_records")),
    )
    with op.batch_alter_table("audit_records", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_audit_records_at"), ["at"], unique=False)
        batch_op.create_index(batch_op.f("ix_audit_records_target_at"), ["target", "at"], unique=False)

    op.create_table(
        "deployments",
        sa.Column("deployment_id", sa.Text(), nullable=False),
        sa.Column("governed", sa.Integer(), nullable=False),
        sa.Column("api_enabled", sa.Integer(), nullable=False),
        sa.Column("any_key_ever", sa.Integer(), nullable=False),
        sa.Column("licence_state", sa.Text(), nullable=False),
        sa.Column("licence_reason", sa.Text(), nullable=True),
        sa.Column("licence_enforcement_status", sa.Text(), nullable=True),
        sa.Column("license_id", sa.Text(), nullable=True),
        sa.Column("retention_days", sa.Integer(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("cursor_secret", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("deployment_id", name=op.f("pk_deployments")),
    )
    op.create_table(
        "idempotency_records",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("first_used_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", "idempotency_key", name=op.f("pk_idempotency_records")),
    )
    with op.batch_alter_table("idempotency_records", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_idempotency_records_first_used_at"), ["first_used_at"], unique=False)

    op.create_table(
        "pending_removals",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_pending_removals")),
    )
    with op.batch_alter_table("pending_removals", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_pending_removals_requested_at"), ["requested_at"], unique=False)

    op.create_table(
        "resource_revision",
        sa.Column("only", sa.Integer(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("only", name=op.f("pk_resource_revision")),
    )
    op.create_table(
        "resources",
        sa.Column("resource_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("resource_id", name=op.f("pk_resources")),
        sa.UniqueConstraint("kind", "name", name=op.f("uq_resources_kind_name")),
    )
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("workflow_name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("triggered_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("cancel_requested_at", sa.BigInteger(), nullable=True),
        sa.Column("cancel_reason", sa.Text(), nullable=True),
        sa.Column("client_reference", sa.Text(), nullable=True),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("steps_total", sa.Integer(), nullable=False),
        sa.Column("steps_completed", sa.Integer(), nullable=False),
        sa.Column("steps_failed", sa.Integer(), nullable=False),
        sa.Column("steps_skipped", sa.Integer(), nullable=False),
        sa.Column("approvals_pending", sa.Integer(), nullable=False),
        sa.Column("outputs_count", sa.Integer(), nullable=False),
        sa.Column("warnings", sa.Text(), nullable=False),
        sa.Column("parameters", sa.Text(), nullable=True),
        sa.Column("input_text", sa.Text(), nullable=True),
        sa.Column("inputs_manifest", sa.Text(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("max_run_hours", sa.Float(), nullable=True),
        sa.Column("summary_markdown", sa.Text(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("result_error_code", sa.Text(), nullable=True),
        sa.Column("result_error_message", sa.Text(), nullable=True),
        sa.Column("result_schema_version", sa.Text(), nullable=True),
        sa.Column("result_output_id", sa.Text(), nullable=True),
        sa.Column("result_size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("result_sha256", sa.Text(), nullable=True),
        sa.Column("data_purged_at", sa.BigInteger(), nullable=True),
        sa.Column("pii_policy", sa.Text(), nullable=False),
        sa.Column("pii_redaction", sa.Text(), nullable=True),
        sa.Column("redaction_state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_runs")),
    )
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.create_index(
            "ix_runs_active",
            ["key_id", "status"],
            unique=False,
            sqlite_where=sa.text("status IN ('queued', 'running', 'waiting_for_approval')"),
            postgresql_where=sa.text("status IN ('queued', 'running', 'waiting_for_approval')"),
        )
        batch_op.create_index("ix_runs_newest", ["created_at", "run_id"], unique=False)
        batch_op.create_index("ix_runs_newest_of_key", ["key_id", "created_at", "run_id"], unique=False)

    op.create_table(
        "usage_records",
        sa.Column("batch_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("batch_id", "position", name=op.f("pk_usage_records")),
    )
    with op.batch_alter_table("usage_records", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_usage_records_at"), ["at"], unique=False)
        batch_op.create_index(batch_op.f("ix_usage_records_key_id_at"), ["key_id", "at"], unique=False)

    op.create_table(
        "workflows",
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_folded", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("active_version", sa.Integer(), nullable=True),
        sa.Column("newest_version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("workflow_id", name=op.f("pk_workflows")),
        sa.UniqueConstraint("name", name=op.f("uq_workflows_name")),
    )
    with op.batch_alter_table("workflows", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_workflows_name_workflow_id"), ["name", "workflow_id"], unique=False)

    op.create_table(
        "approvals",
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("segment_id", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("instructions", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("continued_in", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_approvals_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("approval_id", name=op.f("pk_approvals")),
    )
    with op.batch_alter_table("approvals", schema=None) as batch_op:
        batch_op.create_index(
            "ix_approvals_pending",
            ["requested_at"],
            unique=False,
            sqlite_where=sa.text("state = 'pending'"),
            postgresql_where=sa.text("state = 'pending'"),
        )
        batch_op.create_index(batch_op.f("ix_approvals_run_id_requested_at"), ["run_id", "requested_at"], unique=False)

    op.create_table(
        "connector_tests",
        sa.Column("connector_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("passed", sa.Integer(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("tested_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["connector_id"],
            ["resources.resource_id"],
            name=op.f("fk_connector_tests_connector_id_resources"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("connector_id", "version", name=op.f("pk_connector_tests")),
    )
    op.create_table(
        "daily_usage",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("runs_started", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["key_id"], ["api_keys.key_id"], name=op.f("fk_daily_usage_key_id_api_keys"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key_id", "day", name=op.f("pk_daily_usage")),
    )
    op.create_table(
        "outputs",
        sa.Column("output_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=True),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("object_key", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_outputs_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("output_id", name=op.f("pk_outputs")),
        sa.UniqueConstraint("run_id", "path", name=op.f("uq_outputs_run_id_path")),
    )
    op.create_table(
        "resource_versions",
        sa.Column("resource_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["resource_id"],
            ["resources.resource_id"],
            name=op.f("fk_resource_versions_resource_id_resources"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("resource_id", "version", name=op.f("pk_resource_versions")),
    )
    op.create_table(
        "segments",
        sa.Column("segment_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("handed_over_at", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_segments_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("segment_id", name=op.f("pk_segments")),
    )
    with op.batch_alter_table("segments", schema=None) as batch_op:
        batch_op.create_index(
            "ix_segments_open",
            ["state", "created_at"],
            unique=False,
            sqlite_where=sa.text("state <> 'ended'"),
            postgresql_where=sa.text("state <> 'ended'"),
        )
        batch_op.create_index(batch_op.f("ix_segments_run_id_ordinal"), ["run_id", "ordinal"], unique=True)

    op.create_table(
        "steps",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("needs", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("segment_id", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("optional", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("value", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_steps_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "position", name=op.f("pk_steps")),
    )
    op.create_table(
        "workflow_versions",
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workflow_id"],
            ["workflows.workflow_id"],
            name=op.f("fk_workflow_versions_workflow_id_workflows"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("workflow_id", "version", name=op.f("pk_workflow_versions")),
    )
    op.create_table(
        "events",
        sa.Column("segment_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.Text(), nullable=True),
        sa.Column("data", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["segment_id"], ["segments.segment_id"], name=op.f("fk_events_segment_id_segments"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("segment_id", "seq", name=op.f("pk_events")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_table("events")
    op.drop_table("workflow_versions")
    op.drop_table("steps")
    with op.batch_alter_table("segments", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_segments_run_id_ordinal"))
        batch_op.drop_index(
            "ix_segments_open", sqlite_where=sa.text("state <> 'ended'"), postgresql_where=sa.text("state <> 'ended'")
        )

    op.drop_table("segments")
    op.drop_table("resource_versions")
    op.drop_table("outputs")
    op.drop_table("daily_usage")
    op.drop_table("connector_tests")
    with op.batch_alter_table("approvals", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_approvals_run_id_requested_at"))
        batch_op.drop_index(
            "ix_approvals_pending",
            sqlite_where=sa.text("state = 'pending'"),
            postgresql_where=sa.text("state = 'pending'"),
        )

    op.drop_table("approvals")
    with op.batch_alter_table("workflows", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_workflows_name_workflow_id"))

    op.drop_table("workflows")
    with op.batch_alter_table("usage_records", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_usage_records_key_id_at"))
        batch_op.drop_index(batch_op.f("ix_usage_records_at"))

    op.drop_table("usage_records")
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.drop_index("ix_runs_newest_of_key")
        batch_op.drop_index("ix_runs_newest")
        batch_op.drop_index(
            "ix_runs_active",
            sqlite_where=sa.text("status IN ('queued', 'running', 'waiting_for_approval')"),
            postgresql_where=sa.text("status IN ('queued', 'running', 'waiting_for_approval')"),
        )

    op.drop_table("runs")
    op.drop_table("resources")
    op.drop_table("resource_revision")
    with op.batch_alter_table("pending_removals", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_pending_removals_requested_at"))

    op.drop_table("pending_removals")
    with op.batch_alter_table("idempotency_records", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_idempotency_records_first_used_at"))

    op.drop_table("idempotency_records")
    op.drop_table("deployments")
    with op.batch_alter_table("audit_records", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_audit_records_target_at"))
        batch_op.drop_index(batch_op.f("ix_audit_records_at"))

    op.drop_table("audit_records")
    op.drop_table("api_keys")
