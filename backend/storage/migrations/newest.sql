CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE api_keys (
	key_id TEXT NOT NULL, 
	deployment_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	description TEXT NOT NULL, 
	secret_sha256 TEXT NOT NULL, 
	previous_secret_sha256 TEXT, 
	previous_secret_expires_at BIGINT, 
	external_id_sha256 TEXT NOT NULL, 
	scopes TEXT NOT NULL, 
	access_mode TEXT NOT NULL, 
	access_workflow_ids TEXT NOT NULL, 
	source_allow_list TEXT NOT NULL, 
	start_hour INTEGER, 
	end_hour INTEGER, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	rate_limit_rpm INTEGER NOT NULL, 
	daily_run_quota INTEGER NOT NULL, 
	max_concurrent_runs INTEGER NOT NULL, 
	revoked_at BIGINT, daily_tokens BIGINT, daily_cost_microusd BIGINT, priority TEXT DEFAULT 'normal' NOT NULL, 
	CONSTRAINT pk_api_keys PRIMARY KEY (key_id)
);
CREATE TABLE audit_records (
	audit_id TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	actor TEXT NOT NULL, 
	action TEXT NOT NULL, 
	target TEXT NOT NULL, 
	details TEXT NOT NULL, 
	CONSTRAINT pk_audit_records PRIMARY KEY (audit_id)
);
CREATE TABLE deployments (
	deployment_id TEXT NOT NULL, 
	governed INTEGER NOT NULL, 
	api_enabled INTEGER NOT NULL, 
	any_key_ever INTEGER NOT NULL, 
	licence_state TEXT NOT NULL, 
	licence_reason TEXT, 
	licence_enforcement_status TEXT, 
	license_id TEXT, 
	retention_days INTEGER NOT NULL, 
	revision BIGINT NOT NULL, 
	cursor_secret TEXT NOT NULL, 
	CONSTRAINT pk_deployments PRIMARY KEY (deployment_id)
);
CREATE TABLE idempotency_records (
	key_id TEXT NOT NULL, 
	idempotency_key TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	run_id TEXT, 
	first_used_at BIGINT NOT NULL, 
	CONSTRAINT pk_idempotency_records PRIMARY KEY (key_id, idempotency_key)
);
CREATE INDEX ix_idempotency_records_first_used_at ON idempotency_records (first_used_at);
CREATE TABLE pending_removals (
	run_id TEXT NOT NULL, 
	requested_at BIGINT NOT NULL, 
	CONSTRAINT pk_pending_removals PRIMARY KEY (run_id)
);
CREATE INDEX ix_pending_removals_requested_at ON pending_removals (requested_at);
CREATE TABLE resource_revision (
	only INTEGER NOT NULL, 
	revision BIGINT NOT NULL, 
	CONSTRAINT pk_resource_revision PRIMARY KEY (only)
);
CREATE TABLE resources (
	resource_id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	definition TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, owner_set TEXT, 
	CONSTRAINT pk_resources PRIMARY KEY (resource_id), 
	CONSTRAINT uq_resources_kind_name UNIQUE (kind, name)
);
CREATE TABLE runs (
	run_id TEXT NOT NULL, 
	key_id TEXT NOT NULL, 
	workflow_id TEXT NOT NULL, 
	workflow_name TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	status TEXT NOT NULL, 
	triggered_by TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	started_at BIGINT, 
	finished_at BIGINT, 
	cancel_requested_at BIGINT, 
	cancel_reason TEXT, 
	client_reference TEXT, 
	labels TEXT NOT NULL, 
	steps_total INTEGER NOT NULL, 
	steps_completed INTEGER NOT NULL, 
	steps_failed INTEGER NOT NULL, 
	steps_skipped INTEGER NOT NULL, 
	approvals_pending INTEGER NOT NULL, 
	outputs_count INTEGER NOT NULL, 
	warnings TEXT NOT NULL, 
	parameters TEXT, 
	input_text TEXT, 
	inputs_manifest TEXT, 
	error_code TEXT, 
	error_message TEXT, 
	max_run_hours FLOAT, 
	summary_markdown TEXT, 
	result TEXT, 
	result_error_code TEXT, 
	result_error_message TEXT, 
	result_schema_version TEXT, 
	result_output_id TEXT, 
	result_size_bytes BIGINT, 
	result_sha256 TEXT, 
	data_purged_at BIGINT, 
	pii_policy TEXT NOT NULL, 
	pii_redaction TEXT, 
	redaction_state TEXT NOT NULL, resumed_from TEXT, resumed_by TEXT, parent_run_id TEXT, parent_step TEXT, parent_item INTEGER, depth INTEGER DEFAULT '0' NOT NULL, model_calls BIGINT DEFAULT '0' NOT NULL, input_tokens BIGINT DEFAULT '0' NOT NULL, output_tokens BIGINT DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_runs PRIMARY KEY (run_id)
);
CREATE INDEX ix_runs_newest ON runs (created_at, run_id);
CREATE INDEX ix_runs_newest_of_key ON runs (key_id, created_at, run_id);
CREATE TABLE usage_records (
	batch_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	key_id TEXT NOT NULL, 
	method TEXT NOT NULL, 
	route TEXT NOT NULL, 
	status INTEGER NOT NULL, 
	address TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	request_id TEXT NOT NULL, duration_us BIGINT, 
	CONSTRAINT pk_usage_records PRIMARY KEY (batch_id, position)
);
CREATE INDEX ix_usage_records_at ON usage_records (at);
CREATE INDEX ix_usage_records_key_id_at ON usage_records (key_id, at);
CREATE TABLE workflows (
	workflow_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	name_folded TEXT NOT NULL, 
	description TEXT NOT NULL, 
	status TEXT NOT NULL, 
	active_version INTEGER, 
	newest_version INTEGER NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, deleted_at BIGINT, owner_set TEXT, 
	CONSTRAINT pk_workflows PRIMARY KEY (workflow_id), 
	CONSTRAINT uq_workflows_name UNIQUE (name)
);
CREATE INDEX ix_workflows_name_workflow_id ON workflows (name, workflow_id);
CREATE TABLE approvals (
	approval_id TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	segment_id TEXT NOT NULL, 
	step TEXT NOT NULL, 
	title TEXT NOT NULL, 
	instructions TEXT, 
	state TEXT NOT NULL, 
	requested_at BIGINT NOT NULL, 
	decided_at BIGINT, 
	decided_by TEXT, 
	comment TEXT, 
	continued_in TEXT, deadline_at BIGINT, remind_at BIGINT, reminded_at BIGINT, on_deadline TEXT, approvers TEXT, form_schema TEXT, form TEXT, summary TEXT, tool_call TEXT, assigned_to TEXT, 
	CONSTRAINT pk_approvals PRIMARY KEY (approval_id), 
	CONSTRAINT fk_approvals_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
CREATE INDEX ix_approvals_pending ON approvals (requested_at) WHERE state = 'pending';
CREATE INDEX ix_approvals_run_id_requested_at ON approvals (run_id, requested_at);
CREATE TABLE connector_tests (
	connector_id TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	passed INTEGER NOT NULL, 
	message TEXT NOT NULL, 
	tested_at BIGINT NOT NULL, 
	CONSTRAINT pk_connector_tests PRIMARY KEY (connector_id, version), 
	CONSTRAINT fk_connector_tests_connector_id_resources FOREIGN KEY(connector_id) REFERENCES resources (resource_id) ON DELETE CASCADE
);
CREATE TABLE daily_usage (
	key_id TEXT NOT NULL, 
	day INTEGER NOT NULL, 
	runs_started INTEGER NOT NULL, 
	CONSTRAINT pk_daily_usage PRIMARY KEY (key_id, day), 
	CONSTRAINT fk_daily_usage_key_id_api_keys FOREIGN KEY(key_id) REFERENCES api_keys (key_id) ON DELETE CASCADE
);
CREATE TABLE outputs (
	output_id TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	path TEXT NOT NULL, 
	step TEXT, 
	media_type TEXT NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	sha256 TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	object_key TEXT NOT NULL, crc32 BIGINT, 
	CONSTRAINT pk_outputs PRIMARY KEY (output_id), 
	CONSTRAINT fk_outputs_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE, 
	CONSTRAINT uq_outputs_run_id_path UNIQUE (run_id, path)
);
CREATE TABLE resource_versions (
	resource_id TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	definition TEXT NOT NULL, 
	created_at BIGINT NOT NULL, source_digest TEXT, variables TEXT, 
	CONSTRAINT pk_resource_versions PRIMARY KEY (resource_id, version), 
	CONSTRAINT fk_resource_versions_resource_id_resources FOREIGN KEY(resource_id) REFERENCES resources (resource_id) ON DELETE CASCADE
);
CREATE TABLE segments (
	segment_id TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	ordinal INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	owner TEXT, 
	created_at BIGINT NOT NULL, 
	handed_over_at BIGINT, 
	started_at BIGINT, 
	ended_at BIGINT, 
	last_seq INTEGER NOT NULL, hand_overs INTEGER DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_segments PRIMARY KEY (segment_id), 
	CONSTRAINT fk_segments_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
CREATE INDEX ix_segments_open ON segments (state, created_at) WHERE state <> 'ended';
CREATE UNIQUE INDEX ix_segments_run_id_ordinal ON segments (run_id, ordinal);
CREATE TABLE steps (
	run_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	step TEXT NOT NULL, 
	name TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	status TEXT NOT NULL, 
	needs TEXT NOT NULL, 
	agent_id TEXT, 
	segment_id TEXT, 
	attempt INTEGER NOT NULL, 
	optional INTEGER NOT NULL, 
	started_at BIGINT, 
	finished_at BIGINT, 
	error_code TEXT, 
	error_message TEXT, 
	value TEXT, files_count INTEGER, reused_from TEXT, phase TEXT, items_total INTEGER, items_completed INTEGER, items_failed INTEGER, items_from TEXT, pauses INTEGER, paused TEXT, 
	CONSTRAINT pk_steps PRIMARY KEY (run_id, position), 
	CONSTRAINT fk_steps_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
CREATE TABLE workflow_versions (
	workflow_id TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	definition TEXT NOT NULL, 
	created_at BIGINT NOT NULL, definition_version INTEGER, variables TEXT, 
	CONSTRAINT pk_workflow_versions PRIMARY KEY (workflow_id, version), 
	CONSTRAINT fk_workflow_versions_workflow_id_workflows FOREIGN KEY(workflow_id) REFERENCES workflows (workflow_id) ON DELETE CASCADE
);
CREATE TABLE events (
	segment_id TEXT NOT NULL, 
	seq INTEGER NOT NULL, 
	type TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	step TEXT, 
	data TEXT NOT NULL, 
	CONSTRAINT pk_events PRIMARY KEY (segment_id, seq), 
	CONSTRAINT fk_events_segment_id_segments FOREIGN KEY(segment_id) REFERENCES segments (segment_id) ON DELETE CASCADE
)
 WITHOUT ROWID

;
CREATE TABLE usage_hours (
	hour BIGINT NOT NULL, 
	key_id TEXT NOT NULL, 
	method TEXT NOT NULL, 
	route TEXT NOT NULL, 
	status INTEGER NOT NULL, 
	calls BIGINT NOT NULL, 
	CONSTRAINT pk_usage_hours PRIMARY KEY (hour, key_id, method, route, status)
);
CREATE TABLE pending_deletions (
	object_key TEXT NOT NULL, 
	CONSTRAINT pk_pending_deletions PRIMARY KEY (object_key)
);
CREATE INDEX ix_runs_unswept ON runs (finished_at) WHERE redaction_state = 'pending';
CREATE TABLE publications (
	run_id TEXT NOT NULL, 
	graph_id TEXT NOT NULL, 
	graph_version INTEGER NOT NULL, 
	entry TEXT NOT NULL, 
	state TEXT NOT NULL, 
	requested_at BIGINT NOT NULL, 
	attempts INTEGER NOT NULL, 
	next_attempt_at BIGINT NOT NULL, claimed_by TEXT, claimed_until BIGINT, 
	CONSTRAINT pk_publications PRIMARY KEY (run_id, graph_id)
);
CREATE INDEX ix_publications_graph_id ON publications (graph_id);
CREATE INDEX ix_publications_open ON publications (next_attempt_at) WHERE state IN ('pending', 'landed', 'removing');
CREATE TABLE workers (
	owner TEXT NOT NULL, 
	host TEXT NOT NULL, 
	step_slots INTEGER NOT NULL, 
	started_at BIGINT NOT NULL, 
	lease_until BIGINT NOT NULL, 
	draining INTEGER NOT NULL, room INTEGER DEFAULT '1' NOT NULL, 
	CONSTRAINT pk_workers PRIMARY KEY (owner)
);
CREATE TABLE users (
	name TEXT NOT NULL, 
	role TEXT NOT NULL, 
	password_hash TEXT NOT NULL, 
	password_is_temporary INTEGER NOT NULL, 
	created_at BIGINT NOT NULL, 
	signed_in_at BIGINT, 
	disabled_at BIGINT, workflow_ids TEXT, issuer TEXT, subject TEXT, preferences TEXT, views TEXT, 
	CONSTRAINT pk_users PRIMARY KEY (name)
);
CREATE TABLE sessions (
	token_sha256 TEXT NOT NULL, 
	name TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	used_at BIGINT NOT NULL, 
	CONSTRAINT pk_sessions PRIMARY KEY (token_sha256), 
	CONSTRAINT fk_sessions_name_users FOREIGN KEY(name) REFERENCES users (name) ON DELETE CASCADE
);
CREATE INDEX ix_sessions_name ON sessions (name);
CREATE INDEX ix_sessions_created_at ON sessions (created_at);
CREATE TABLE sign_in_tries (
	name_sha256 TEXT NOT NULL, 
	tries INTEGER NOT NULL, 
	last_at BIGINT NOT NULL, 
	waits_until BIGINT NOT NULL, 
	audited_at BIGINT NOT NULL, 
	CONSTRAINT pk_sign_in_tries PRIMARY KEY (name_sha256)
);
CREATE INDEX ix_sign_in_tries_last_at ON sign_in_tries (last_at);
CREATE INDEX ix_runs_expiring ON runs (finished_at) WHERE finished_at IS NOT NULL AND data_purged_at IS NULL;
CREATE INDEX ix_runs_in_flight ON runs (key_id, status, created_at, run_id) WHERE status = 'queued' OR status = 'running' OR status = 'waiting_for_approval';
CREATE INDEX ix_runs_finished ON runs (key_id, status, created_at, run_id) WHERE status = 'completed' OR status = 'failed' OR status = 'cancelled';
CREATE INDEX ix_runs_finished_of_workflow ON runs (key_id, workflow_id, status, created_at, run_id) WHERE status = 'completed' OR status = 'failed' OR status = 'cancelled';
CREATE INDEX ix_runs_finished_of_reference ON runs (client_reference, key_id, workflow_id, status, created_at, run_id) WHERE client_reference IS NOT NULL AND (status = 'completed' OR status = 'failed' OR status = 'cancelled');
CREATE INDEX ix_usage_hours_key_id_hour ON usage_hours (key_id, hour);
CREATE TABLE workflow_version_resources (
	workflow_id TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	resource_id TEXT, 
	resource_version INTEGER, 
	CONSTRAINT pk_workflow_version_resources PRIMARY KEY (workflow_id, version, kind, name), 
	CONSTRAINT fk_workflow_version_resources_workflow_id_workflow_versions FOREIGN KEY(workflow_id, version) REFERENCES workflow_versions (workflow_id, version) ON DELETE CASCADE, 
	CONSTRAINT fk_workflow_version_resources_resource_id_resource_versions FOREIGN KEY(resource_id, resource_version) REFERENCES resource_versions (resource_id, version)
);
CREATE TABLE environment_locks (
	digest TEXT NOT NULL, 
	lock TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	requested_at BIGINT NOT NULL, 
	built_at BIGINT, 
	modules TEXT, 
	CONSTRAINT pk_environment_locks PRIMARY KEY (digest)
);
CREATE TABLE environment_packages (
	resource_id TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	CONSTRAINT pk_environment_packages PRIMARY KEY (resource_id), 
	CONSTRAINT fk_environment_packages_digest_environment_locks FOREIGN KEY(digest) REFERENCES environment_locks (digest), 
	CONSTRAINT fk_environment_packages_resource_id_resources FOREIGN KEY(resource_id) REFERENCES resources (resource_id) ON DELETE CASCADE
);
CREATE TABLE environment_builds (
	digest TEXT NOT NULL, 
	machine TEXT NOT NULL, 
	state TEXT NOT NULL, 
	message TEXT NOT NULL, 
	size BIGINT, 
	updated_at BIGINT NOT NULL, 
	seen_at BIGINT NOT NULL, log TEXT, 
	CONSTRAINT pk_environment_builds PRIMARY KEY (digest, machine), 
	CONSTRAINT fk_environment_builds_digest_environment_locks FOREIGN KEY(digest) REFERENCES environment_locks (digest)
);
CREATE TABLE step_logs (
	run_id TEXT NOT NULL, 
	step TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	began_at BIGINT NOT NULL, 
	ended_at BIGINT, 
	size_bytes BIGINT, 
	problem TEXT, 
	CONSTRAINT pk_step_logs PRIMARY KEY (run_id, step, attempt), 
	CONSTRAINT fk_step_logs_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
CREATE TABLE step_log_parts (
	run_id TEXT NOT NULL, 
	step TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	text TEXT NOT NULL, 
	superseded_at BIGINT, 
	CONSTRAINT pk_step_log_parts PRIMARY KEY (run_id, step, attempt, seq), 
	CONSTRAINT fk_step_log_parts_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
CREATE INDEX ix_step_log_parts_superseded ON step_log_parts (superseded_at) WHERE superseded_at IS NOT NULL;
CREATE TABLE agent_sources (
	digest TEXT NOT NULL, 
	archive BLOB NOT NULL, 
	applied_at BIGINT NOT NULL, 
	CONSTRAINT pk_agent_sources PRIMARY KEY (digest)
);
CREATE INDEX ix_agent_sources_applied_at ON agent_sources (applied_at);
CREATE INDEX ix_resource_versions_source_digest ON resource_versions (source_digest);
CREATE TABLE webhooks (
	webhook_id TEXT NOT NULL, 
	key_id TEXT NOT NULL, 
	url TEXT NOT NULL, 
	description TEXT NOT NULL, 
	run_ended INTEGER NOT NULL, 
	run_waiting_for_approval INTEGER NOT NULL, 
	run_erased INTEGER NOT NULL, 
	secret TEXT NOT NULL, 
	previous_secret TEXT, 
	previous_secret_expires_at BIGINT, 
	created_at BIGINT NOT NULL, 
	paused_at BIGINT, 
	paused_reason TEXT, 
	failing_since BIGINT, schedule_skipped INTEGER DEFAULT 0 NOT NULL, schedule_failed INTEGER DEFAULT 0 NOT NULL, approval_reminded INTEGER DEFAULT '0' NOT NULL, approval_expired INTEGER DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_webhooks PRIMARY KEY (webhook_id), 
	CONSTRAINT fk_webhooks_key_id_api_keys FOREIGN KEY(key_id) REFERENCES api_keys (key_id) ON DELETE CASCADE
);
CREATE INDEX ix_webhooks_key_id ON webhooks (key_id);
CREATE TABLE run_labels (
	run_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_run_labels PRIMARY KEY (run_id, name), 
	CONSTRAINT fk_run_labels_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
)
 WITHOUT ROWID

;
CREATE INDEX ix_run_labels_newest ON run_labels (value, created_at, run_id);
CREATE TABLE run_days (
	day BIGINT NOT NULL, 
	ended INTEGER NOT NULL, 
	failed INTEGER NOT NULL, 
	cancelled INTEGER NOT NULL, 
	median_ms BIGINT, 
	p95_ms BIGINT, 
	CONSTRAINT pk_run_days PRIMARY KEY (day)
);
CREATE INDEX ix_runs_ended ON runs (finished_at, status, started_at) WHERE finished_at IS NOT NULL;
CREATE INDEX ix_approvals_decided ON approvals (decided_at, approval_id) WHERE decided_by IS NOT NULL;
CREATE TABLE usage_batches (
	batch_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	key_id TEXT NOT NULL, 
	first_at BIGINT NOT NULL, 
	last_at BIGINT NOT NULL, 
	calls BLOB NOT NULL, 
	CONSTRAINT pk_usage_batches PRIMARY KEY (batch_id, position)
);
CREATE INDEX ix_usage_batches_key_id_last_at ON usage_batches (key_id, last_at);
CREATE INDEX ix_usage_batches_last_at ON usage_batches (last_at);
CREATE INDEX ix_audit_records_newest ON audit_records (at, audit_id);
CREATE INDEX ix_audit_records_of_actor ON audit_records (actor, at, audit_id);
CREATE INDEX ix_audit_records_of_action ON audit_records (action, at, audit_id);
CREATE INDEX ix_audit_records_of_target ON audit_records (target, at, audit_id);
CREATE INDEX ix_users_identity ON users (issuer, subject);
CREATE TABLE passkeys (
	credential_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	label TEXT NOT NULL, 
	rp_id TEXT NOT NULL, 
	public_key TEXT NOT NULL, 
	sign_count BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	used_at BIGINT, 
	CONSTRAINT pk_passkeys PRIMARY KEY (credential_id), 
	CONSTRAINT fk_passkeys_name_users FOREIGN KEY(name) REFERENCES users (name) ON DELETE CASCADE
);
CREATE INDEX ix_passkeys_name ON passkeys (name);
CREATE TABLE passkey_challenges (
	token_sha256 TEXT NOT NULL, 
	name TEXT NOT NULL, 
	purpose TEXT NOT NULL, 
	challenge TEXT, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_passkey_challenges PRIMARY KEY (token_sha256), 
	CONSTRAINT fk_passkey_challenges_name_users FOREIGN KEY(name) REFERENCES users (name) ON DELETE CASCADE
);
CREATE INDEX ix_passkey_challenges_name ON passkey_challenges (name);
CREATE INDEX ix_passkey_challenges_created_at ON passkey_challenges (created_at);
CREATE TABLE recovery_codes (
	name TEXT NOT NULL, 
	code_sha256 TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_recovery_codes PRIMARY KEY (name, code_sha256), 
	CONSTRAINT fk_recovery_codes_name_users FOREIGN KEY(name) REFERENCES users (name) ON DELETE CASCADE
);
CREATE TABLE uploads (
	upload_id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	run_id TEXT, 
	CONSTRAINT pk_uploads PRIMARY KEY (upload_id)
);
CREATE INDEX ix_uploads_open ON uploads (owner) WHERE run_id IS NULL;
CREATE INDEX ix_uploads_expiring ON uploads (expires_at) WHERE run_id IS NULL;
CREATE INDEX ix_uploads_run_id ON uploads (run_id);
CREATE TABLE upload_files (
	upload_id TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	parameter TEXT NOT NULL, 
	name TEXT NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	stored_bytes BIGINT NOT NULL, 
	finished INTEGER NOT NULL, 
	members TEXT, 
	CONSTRAINT pk_upload_files PRIMARY KEY (upload_id, number), 
	CONSTRAINT fk_upload_files_upload_id_uploads FOREIGN KEY(upload_id) REFERENCES uploads (upload_id) ON DELETE CASCADE
);
CREATE INDEX ix_runs_ended_of_workflow ON runs (workflow_id, finished_at, run_id, status, started_at) WHERE finished_at IS NOT NULL;
CREATE TABLE processes (
	process_id TEXT NOT NULL, 
	part TEXT NOT NULL, 
	host TEXT NOT NULL, 
	pid BIGINT NOT NULL, 
	release TEXT NOT NULL, 
	started_at BIGINT NOT NULL, 
	seen_at BIGINT NOT NULL, 
	clock_ahead BIGINT, 
	data_total BIGINT, 
	data_free BIGINT, 
	objects_total BIGINT, 
	objects_free BIGINT, data_filling BIGINT, objects_filling BIGINT, certificate_expires_at BIGINT, unusable_backends TEXT, 
	CONSTRAINT pk_processes PRIMARY KEY (process_id)
);
CREATE INDEX ix_publications_graph_id_requested_at ON publications (graph_id, requested_at);
CREATE TABLE run_traces (
	run_id TEXT NOT NULL, 
	traceparent TEXT NOT NULL, 
	tracestate TEXT, 
	CONSTRAINT pk_run_traces PRIMARY KEY (run_id), 
	CONSTRAINT fk_run_traces_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
)
 WITHOUT ROWID

;
CREATE TABLE shared_files (
	object_key TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	path TEXT NOT NULL, 
	step TEXT NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	CONSTRAINT pk_shared_files PRIMARY KEY (object_key), 
	CONSTRAINT fk_shared_files_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
CREATE INDEX ix_shared_files_run_id ON shared_files (run_id);
CREATE TABLE schedules (
	schedule_id TEXT NOT NULL, 
	workflow_id TEXT NOT NULL, 
	name TEXT, 
	definition TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	created_by TEXT, 
	paused INTEGER NOT NULL, 
	next_at BIGINT, 
	waiting_at BIGINT, 
	last_due_at BIGINT, 
	last_at BIGINT, 
	last_outcome TEXT, 
	last_run_id TEXT, 
	last_reason TEXT, 
	CONSTRAINT pk_schedules PRIMARY KEY (schedule_id), 
	CONSTRAINT fk_schedules_workflow_id_workflows FOREIGN KEY(workflow_id) REFERENCES workflows (workflow_id) ON DELETE CASCADE, 
	CONSTRAINT uq_schedules_workflow_id_name UNIQUE (workflow_id, name)
);
CREATE INDEX ix_schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX ix_schedules_waiting ON schedules (waiting_at) WHERE waiting_at IS NOT NULL;
CREATE TABLE schedule_starts (
	run_id TEXT NOT NULL, 
	workflow_id TEXT NOT NULL, 
	schedule TEXT NOT NULL, 
	due_at BIGINT, 
	started_at BIGINT NOT NULL, 
	CONSTRAINT pk_schedule_starts PRIMARY KEY (run_id), 
	CONSTRAINT uq_schedule_starts_workflow_id_schedule_due_at UNIQUE (workflow_id, schedule, due_at)
);
CREATE TABLE webhook_deliveries (
	webhook_id TEXT NOT NULL, 
	message_id TEXT NOT NULL, 
	run_id TEXT, 
	ordinal INTEGER NOT NULL, 
	event TEXT NOT NULL, 
	run_status TEXT NOT NULL, 
	occurred_at BIGINT NOT NULL, 
	state TEXT NOT NULL, 
	due_at BIGINT, 
	claim TEXT, 
	attempts INTEGER NOT NULL, 
	first_attempt_at BIGINT, 
	last_attempt_at BIGINT, 
	last_status INTEGER, 
	last_error TEXT, 
	finished_at BIGINT, 
	data TEXT, 
	CONSTRAINT pk_webhook_deliveries PRIMARY KEY (webhook_id, message_id), 
	CONSTRAINT fk_webhook_deliveries_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE, 
	CONSTRAINT fk_webhook_deliveries_webhook_id_webhooks FOREIGN KEY(webhook_id) REFERENCES webhooks (webhook_id) ON DELETE CASCADE
);
CREATE INDEX ix_webhook_deliveries_newest ON webhook_deliveries (webhook_id, occurred_at, message_id);
CREATE INDEX ix_webhook_deliveries_run_id ON webhook_deliveries (run_id);
CREATE UNIQUE INDEX ix_webhook_deliveries_order ON webhook_deliveries (webhook_id, run_id, ordinal);
CREATE INDEX ix_webhook_deliveries_occurred_at ON webhook_deliveries (occurred_at);
CREATE INDEX ix_webhook_deliveries_pending ON webhook_deliveries (webhook_id, run_id, ordinal) WHERE state = 'pending';
CREATE INDEX ix_webhook_deliveries_due ON webhook_deliveries (webhook_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ix_approvals_deadline ON approvals (deadline_at) WHERE state = 'pending' AND deadline_at IS NOT NULL;
CREATE INDEX ix_approvals_by_deadline ON approvals (coalesce(deadline_at, 4611686018427387904), approval_id) WHERE state = 'pending';
CREATE INDEX ix_approvals_remind ON approvals (remind_at) WHERE state = 'pending' AND remind_at IS NOT NULL;
CREATE TABLE step_items (
	run_id TEXT NOT NULL, 
	step TEXT NOT NULL, 
	item_index INTEGER NOT NULL, 
	status TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	item TEXT NOT NULL, 
	value TEXT, 
	value_bytes INTEGER, 
	files_count INTEGER, 
	CONSTRAINT pk_step_items PRIMARY KEY (run_id, step, item_index), 
	CONSTRAINT fk_step_items_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
CREATE INDEX ix_runs_children ON runs (parent_run_id, created_at, run_id) WHERE parent_run_id IS NOT NULL;
CREATE INDEX ix_runs_children_in_flight ON runs (key_id) WHERE parent_run_id IS NOT NULL AND (status = 'queued' OR status = 'running' OR status = 'waiting_for_approval');
CREATE TABLE model_usage (
	run_id TEXT NOT NULL, 
	step TEXT NOT NULL, 
	item_index INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	model TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	model_calls BIGINT NOT NULL, 
	input_tokens BIGINT NOT NULL, 
	output_tokens BIGINT NOT NULL, 
	cached_tokens BIGINT NOT NULL, 
	cost_microusd BIGINT, 
	CONSTRAINT pk_model_usage PRIMARY KEY (run_id, step, item_index, attempt, model)
);
CREATE INDEX ix_model_usage_at ON model_usage (at);
CREATE TABLE model_usage_days (
	day INTEGER NOT NULL, 
	key_id TEXT NOT NULL, 
	workflow_id TEXT NOT NULL, 
	model TEXT NOT NULL, 
	model_calls BIGINT NOT NULL, 
	input_tokens BIGINT NOT NULL, 
	output_tokens BIGINT NOT NULL, 
	cached_tokens BIGINT NOT NULL, 
	cost_microusd BIGINT NOT NULL, 
	unpriced_calls BIGINT NOT NULL, 
	CONSTRAINT pk_model_usage_days PRIMARY KEY (day, key_id, workflow_id, model)
);
CREATE INDEX ix_model_usage_days_key_id_day ON model_usage_days (key_id, day);
CREATE TABLE step_transcripts (
	run_id TEXT NOT NULL, 
	step TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	began_at BIGINT NOT NULL, 
	ended_at BIGINT, 
	size_bytes BIGINT, 
	problem TEXT, 
	CONSTRAINT pk_step_transcripts PRIMARY KEY (run_id, step, attempt), 
	CONSTRAINT fk_step_transcripts_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
CREATE TABLE step_transcript_parts (
	run_id TEXT NOT NULL, 
	step TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	text TEXT NOT NULL, 
	superseded_at BIGINT, 
	CONSTRAINT pk_step_transcript_parts PRIMARY KEY (run_id, step, attempt, seq), 
	CONSTRAINT fk_step_transcript_parts_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
CREATE INDEX ix_step_transcript_parts_superseded ON step_transcript_parts (superseded_at) WHERE superseded_at IS NOT NULL;
CREATE INDEX ix_runs_failed ON runs (finished_at) WHERE status = 'failed';
CREATE TABLE approval_snoozes (
	approval_id TEXT NOT NULL, 
	person TEXT NOT NULL, 
	until BIGINT NOT NULL, 
	CONSTRAINT pk_approval_snoozes PRIMARY KEY (approval_id, person), 
	CONSTRAINT fk_approval_snoozes_approval_id_approvals FOREIGN KEY(approval_id) REFERENCES approvals (approval_id) ON DELETE CASCADE
);
CREATE INDEX ix_audit_records_starts ON audit_records (actor, at, target) WHERE action = 'run.started';
CREATE TABLE interruptions (
	run_id TEXT NOT NULL, 
	ordinal INTEGER NOT NULL, 
	interrupted_at BIGINT NOT NULL, 
	due_at BIGINT, 
	followed_by TEXT, 
	CONSTRAINT pk_interruptions PRIMARY KEY (run_id), 
	CONSTRAINT fk_interruptions_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE, 
	CONSTRAINT uq_interruptions_followed_by UNIQUE (followed_by)
)
 WITHOUT ROWID

;
CREATE INDEX ix_interruptions_due ON interruptions (due_at) WHERE due_at IS NOT NULL;
CREATE TABLE notification_targets (
	name TEXT NOT NULL, 
	events TEXT NOT NULL, 
	workflows TEXT, 
	delivered_at BIGINT, 
	failed_at BIGINT, 
	error TEXT, 
	CONSTRAINT pk_notification_targets PRIMARY KEY (name)
);
CREATE TABLE notifications (
	target TEXT NOT NULL, 
	message_id TEXT NOT NULL, 
	event TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	run_id TEXT, 
	workflow_id TEXT, 
	details TEXT, 
	occurred_at BIGINT NOT NULL, 
	due_at BIGINT, 
	claim TEXT, 
	attempts INTEGER NOT NULL, 
	CONSTRAINT pk_notifications PRIMARY KEY (target, message_id), 
	CONSTRAINT fk_notifications_target_notification_targets FOREIGN KEY(target) REFERENCES notification_targets (name) ON DELETE CASCADE, 
	CONSTRAINT fk_notifications_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE
);
CREATE INDEX ix_notifications_occurred_at ON notifications (occurred_at);
CREATE INDEX ix_notifications_run_id ON notifications (run_id);
CREATE INDEX ix_notifications_subject ON notifications (target, event, subject, occurred_at);
CREATE INDEX ix_notifications_due ON notifications (target, due_at) WHERE due_at IS NOT NULL;
INSERT INTO alembic_version (version_num) VALUES ('0045');
