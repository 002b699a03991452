/** JSON of the API's answers. Made from the protos by `make generate`; never edited by hand. */

/** The health record; nothing else is told without a key. */
export interface Health {
  /** `ok` or `disabled`. */
  status: HealthStatus;
  /** The deployment. */
  deployment_id: string;
  /** The contract date. */
  api_version: string;
}

/** Whether the API accepts keys on this deployment. */
export type HealthStatus = "ok" | "disabled";

/** The calling key and its limits. */
export interface ApiKey {
  /** The key id, `ak_` plus 12 hexadecimal characters. */
  key_id: string;
  /** Name given by the administrator. */
  name: string;
  /** The deployment that the key is bound to. */
  deployment_id: string;
  /** What the key may do. */
  scopes: Scope[];
  /** Which workflows it may run. */
  workflow_access: WorkflowAccess;
  /** When it stops working. */
  expires_at: string;
  /** Requests a minute, all routes together. */
  rate_limit_rpm: number;
  /** Runs that may be started in a UTC day. */
  daily_run_quota: number;
  /** Runs started in the present UTC day. */
  quota_used_today: number;
  /** Runs that may be in flight. */
  max_concurrent_runs: number;
  /** Runs in flight: queued, running and waiting for approval. */
  active_runs: number;
}

/** What an API key may do. The spelling is the value on the wire of the JSON API. */
export type Scope = "workflows:read" | "runs:create" | "runs:read" | "outputs:read" | "runs:delete";

/** Which workflows a key may run. */
export interface WorkflowAccess {
  /** `all_active` or `explicit`. */
  mode: WorkflowAccessMode;
  /** The workflows when `mode` is `explicit`, at most 50; empty for `all_active`. */
  workflow_ids: string[];
}

/** How the workflows are chosen. */
export type WorkflowAccessMode = "all_active" | "explicit";

/** A page of workflows. */
export interface ListWorkflowsResponse {
  /** The workflows. */
  items: Workflow[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
}

/** A workflow as a caller sees it. */
export interface Workflow {
  /** The workflow. */
  workflow_id: string;
  /** Name, at most 80 characters. */
  name: string;
  /** Description, at most 1,000 characters. */
  description: string;
  /** `active`, `draft` or `inactive`. */
  status: WorkflowStatus;
  /** Number of the active version; of the newest where none was ever active. */
  version: number;
  /** Whether it can run. */
  readiness: Readiness;
  /** Time limit of a run in hours, time spent waiting for approvals included; null means none. */
  max_run_hours: number | null;
  /** Steps that run at once, 1 to 10. */
  parallel_steps: number;
  /** The PII policy. */
  pii_policy: PiiPolicy;
  /** Version label of the result schema. */
  result_schema_version: string | null;
  /** When the workflow was first saved. */
  created_at: string;
  /** When it last changed. */
  updated_at: string;
  /** Paths. */
  links: WorkflowLinks;
}

/** Status of a workflow. */
export type WorkflowStatus = "draft" | "active" | "inactive";

/** Whether a workflow can run, and what keeps it from running. */
export interface Readiness {
  /** True when nothing keeps it from running. */
  ready: boolean;
  /** What keeps it from running, each worded for a person. */
  reasons: string[];
}

/** How personal data is found and what becomes of it. */
export interface PiiPolicy {
  /** What redaction does; a tighter policy has a later one of `off`, `detect`, `redact`. */
  mode: PiiMode;
  /** `all`, or a list of entity types as `EMAIL_ADDRESS`; a tighter policy has all of these and perhaps more. */
  categories: string[] | "all";
  /** The stages that are swept; a tighter policy has all of these and perhaps more. */
  stages: PiiStage[];
  /**
   * Least confidence at which something counts as personal data: 0.5 to 1 in steps of 0.05. A tighter policy has
   * no higher one.
   */
  min_confidence: number;
  /** Model that is asked beside the rules: `local`, or a language model as `openai:gpt-5`; null for none. */
  model: string | null;
  /** Most calls of the model in a run; a tighter policy allows no fewer. */
  max_model_calls: number;
  /** Rows of a parquet file that are read; a tighter policy reads no fewer. */
  parquet_sample_rows: number;
  /**
   * Countries, by ISO 3166 codes as `ES`, whose national phone numbers are found in every document; a tighter
   * policy has all of these and perhaps more.
   */
  phone_regions: string[];
}

/** What redaction does, from the loosest to the tightest. */
export type PiiMode = "off" | "detect" | "redact";

/** What a policy covers. */
export type PiiStage = "inputs" | "steps" | "outputs";

/** Paths of a workflow. */
export interface WorkflowLinks {
  /** The workflow. */
  self: string;
  /** Its parameters. */
  parameters: string;
  /** Where to start a run. */
  runs: string;
}

/** The declared run inputs. */
export interface ListParametersResponse {
  /** The workflow. */
  workflow_id: string;
  /** The version that declares them. */
  version: number;
  /** The parameters in the order of the declaration. */
  parameters: Parameter[];
}

/** A declared run input. */
export interface Parameter {
  /** Name, matches `^[a-z][a-z0-9_]{0,63}$`. */
  name: string;
  /** `string`, `integer`, `number`, `boolean`, `date`, `json` or `s3_prefix`. */
  type: string;
  /** What it is for. */
  description: string | null;
  /** Whether a start must give it. */
  required: boolean;
  /** Value when a start does not give it. */
  default: unknown;
  /** Allowed values. */
  enum?: unknown[];
  /** Least value. */
  minimum?: unknown;
  /** Greatest value. */
  maximum?: unknown;
  /** Fewest characters. */
  min_length?: number;
  /** Most characters. */
  max_length?: number;
  /** Regular expression in the syntax of RE2 that the whole value matches, as if it stood between `^` and `$`. */
  pattern?: string;
  /** Connector that reads an `s3_prefix`; its value is `s3://bucket/prefix/`. */
  connector_id?: string;
  /** Most objects of an `s3_prefix`. */
  max_objects?: number;
  /** Most bytes of an `s3_prefix`. */
  max_bytes?: number;
}

/** A run in full. */
export interface Run extends RunSummary {
  /** Effective parameter values by name, defaults included. */
  parameters: Record<string, unknown> | null;
  /** Text given at the start. */
  input_text: string | null;
  /** What was copied in, one entry per `s3_prefix` parameter with a value; null before, and where there is none. */
  inputs_manifest: InputsManifestEntry[] | null;
  /** Present only when the run failed. */
  error?: RunError;
  /** Time limit in hours, time spent waiting for approvals included; null means none. */
  max_run_hours: number | null;
  /** What started it. */
  triggered_by: TriggeredBy;
  /** The key that started it; null where none did. */
  key_id: string | null;
  /**
   * Summary written by the result step, in Markdown, up to 262,144 bytes; a longer one is null, and a warning says
   * so. Null until the final redaction sweep is done.
   */
  summary_markdown: string | null;
  /**
   * The result step's return value, JSON of any kind up to 262,144 bytes; a larger one, of up to 8 MiB, is fetched
   * through `result_json.download.path`. It has at most 100 levels of nesting. Null until the final redaction
   * sweep is done.
   */
  result: unknown;
  /**
   * Why `result` is null although there is one: it does not fit the version's schema, or could not be judged by it
   * within 5 seconds of processor time and 256 MB of memory, which the message says. The run still completed, and
   * the value stays available as the output `result.json`.
   */
  result_error: RunError | null;
  /** Version label of the result schema. */
  result_schema_version: string | null;
  /** The result as a file, whenever one exists and the final redaction sweep is done. */
  result_json: ResultJson | null;
  /** When the run's data was erased; null before. */
  data_purged_at: string | null;
  /** The redaction manifest, as `GET /runs/{run_id}/pii-redaction` gives it; null when the policy was off. */
  pii_redaction: PiiRedaction | null;
  /** The effective PII policy, the override included. */
  pii_policy: PiiPolicy;
  /** The run that it took over from; null for a run that was not resumed. */
  resumed_from: string | null;
  /** The newest run that took over from it; null where none did. */
  resumed_by: string | null;
  /** The run of which a step started it, as a child; null for a run that no other run started. */
  parent_run_id: string | null;
  /** Use of models by its own steps, without those of its children; zeros where none called a model. */
  usage: RunUsage;
}

/** A run in short. */
export interface RunSummary {
  /** The run. */
  run_id: string;
  /** Its workflow. */
  workflow_id: string;
  /** The workflow's name when the run was started. */
  workflow_name: string;
  /** The workflow version that runs. */
  version: number;
  /** Where it stands. */
  status: RunStatus;
  /** When it was recorded. */
  created_at: string;
  /** When its first segment began; null while it is queued. */
  started_at: string | null;
  /** When it completed, failed or was cancelled; null before. */
  finished_at: string | null;
  /** finished_at - started_at in milliseconds; null before the end, and where it never started. */
  duration_ms: number | null;
  /** The caller's own reference. */
  client_reference: string | null;
  /** The caller's own labels; `{}` when none were given. */
  labels: Record<string, string>;
  /** Counts of its parts. */
  counts: RunCounts;
  /**
   * Each names an optional stage that did not land while the run still completed, or something that was left out:
   * files past the bounds of a step, files withheld because they could not be swept for personal data, a summary
   * that was too long.
   */
  warnings: string[];
  /** True only when completed with at least one warning. */
  completed_with_warnings: boolean;
  /** Paths. */
  links: RunLinks;
}

/** Status of a run. */
export type RunStatus = "queued" | "running" | "waiting_for_approval" | "completed" | "failed" | "cancelled";

/** Counts of a run's parts. */
export interface RunCounts {
  /** Steps of the workflow version. */
  steps_total: number;
  /** Steps that completed. */
  steps_completed: number;
  /** Steps that failed. */
  steps_failed: number;
  /** Steps that were skipped. */
  steps_skipped: number;
  /** Approvals that wait for a person. */
  approvals_pending: number;
  /** Promoted outputs. */
  outputs: number;
}

/** Paths of a run. */
export interface RunLinks {
  /** The run. */
  self: string;
  /** Its steps. */
  steps: string;
  /** Its events. */
  events: string;
  /** Its approvals. */
  approvals: string;
  /** Its outputs. */
  outputs: string;
  /** All outputs as one zip. */
  outputs_zip: string;
  /** The redaction manifest. */
  pii_redaction: string;
  /** Where to cancel it. */
  cancel: string;
  /** Where to erase its data. */
  data: string;
}

/** What was copied in for one `s3_prefix` parameter. */
export interface InputsManifestEntry {
  /** The parameter. */
  parameter: string;
  /** The connector that read it. */
  connector_id: string;
  /** Its value, `s3://bucket/prefix/`. */
  uri: string;
  /** Objects copied in. */
  objects: number;
  /** Their bytes. */
  bytes: number;
  /** The first 1,000 of the objects. */
  items: InputObject[];
}

/** An object that was copied in. */
export interface InputObject {
  /** Its key in the bucket. */
  key: string;
  /** Bytes. */
  size_bytes: number;
  /** Entity tag of the object, without quotes. */
  etag: string;
}

/** Why a run or a step failed, or why a result is not given. */
export interface RunError {
  /**
   * Of a run that failed: `input_materialisation_failed`, `node_failed`, `wall_clock_limit_reached`,
   * `invariant_blocked`, `launch_failed`, `orphaned` or `license_unavailable`. Of a step: `node_failed`, also
   * where it went past a bound of steps, which the message names, or `invariant_blocked`. Of a result:
   * `result_schema_mismatch`.
   */
  code: string;
  /** For a person; null once the run's data has been erased. */
  message: string | null;
}

/** What started a run. */
export type TriggeredBy = "api_key" | "console" | "schedule";

/** The result as a file. */
export interface ResultJson {
  /** Bytes. */
  size_bytes: number;
  /** SHA-256 in hexadecimal. */
  sha256: string;
  /** Where to download it. */
  download: ResultDownload;
}

/** Where to download something. */
export interface ResultDownload {
  /** Absolute path on the host. */
  path: string;
}

/** The redaction manifest: counts only, never a value. */
export interface PiiRedaction {
  /** The run. */
  run_id: string;
  /** `detect` or `redact`. */
  mode: string;
  /** Model used, where one was. */
  model: string | null;
  /** The stages. */
  stages: RedactionStage[];
  /** Values found by entity type. */
  categories: Record<string, number>;
  /**
   * Totals by name, as `values`, `files`, `withheld_files`, `model_calls`; sums over the stages, so that a value
   * found in two stages counts twice.
   */
  counts: Record<string, number>;
}

/** State of one redaction stage. */
export interface RedactionStage {
  /** `inputs`, `steps` or `outputs`. */
  stage: string;
  /** `pending`, `completed`, `failed`, or `skipped` where the run ended before there was anything to sweep. */
  status: string;
  /** Files swept. */
  files: number;
  /** Values found. */
  values: number;
  /** Calls of a model. */
  model_calls: number;
}

/** Use of models by a run's own steps: by every attempt, as far as it is known. */
export interface RunUsage {
  /** Calls that a model answered. */
  model_calls: number;
  /** Tokens of their input. */
  input_tokens: number;
  /** Tokens of their output. */
  output_tokens: number;
}

/** A page of runs. */
export interface ListRunsResponse {
  /** The runs. */
  items: RunSummary[];
  /** Cursor of the next page; null on the last. */
  next_cursor: string | null;
}

/** The parked nodes of a run. */
export interface ListRunApprovalsResponse {
  /** The nodes. */
  items: Approval[];
}

/** A node parked on a human gate. */
export interface Approval {
  /** The approval. */
  approval_id: string;
  /** Handle of the step. */
  step: string;
  /** What is asked. */
  title: string;
  /** What to look at. */
  instructions: string | null;
  /** The runtime segment in which the run was parked on it. */
  segment_id: string;
  /** When it was asked for. */
  requested_at: string;
}

/** The run will end, or has ended. */
export interface CancelRunResponse {
  /** The run. */
  run_id: string;
  /** Where it stands now. */
  status: RunStatus;
  /** When its end was first asked for. */
  cancel_requested_at: string;
}

/** The data cannot be reached any more. */
export interface EraseRunDataResponse {
  /** The run. */
  run_id: string;
  /** When it was erased. */
  data_purged_at: string;
}

/** Events of one segment. */
export interface ListRunEventsResponse {
  /** The run. */
  run_id: string;
  /** The segment read; null when none has begun. */
  segment_id: string | null;
  /** The events. */
  events: RunEvent[];
  /**
   * The last seq returned, or `after_seq` when there was none: where to go on. 0 of a segment that began while the
   * call waited.
   */
  next_after_seq: number;
  /** All segments that have begun, in order. A new one is read from `after_seq` 0. */
  segments: Segment[];
}

/** An event of the run's durable log; it never changes. */
export interface RunEvent {
  /** `<segment_id>:<seq>`: where `events({ after })` continues. */
  id: string;
  /** 1, 2, 3 … within the segment, without gaps. */
  seq: number;
  /**
   * One of `segment.started`, `segment.ended`, `run.started`, `run.completed`, `run.failed`, `run.cancelled`,
   * `inputs.materialised`, `step.started`, `step.progress`, `step.completed`, `step.failed`, `step.skipped`,
   * `approval.requested`, `approval.reminded`, `approval.expired`, `approval.decided`, `output.promoted`,
   * `redaction.started`, `redaction.completed`, `publish.started`, `publish.completed` and `warning`.
   */
  type: string;
  /** When it happened. */
  at: string;
  /** Handle of the step, where it is about one. */
  step: string | null;
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: object;
}

/** Data of `segment.started`. */
export interface SegmentStartedData {
  /** 1 for the first segment of the run. */
  ordinal: number;
}

/** A runtime segment began. */
export interface SegmentStartedEvent extends RunEvent {
  /** The type. */
  type: "segment.started";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: SegmentStartedData;
}

/** Nothing beyond the type. */
export type NoData = Record<string, never>;

/** The runtime segment ended; no event follows in it. */
export interface SegmentEndedEvent extends RunEvent {
  /** The type. */
  type: "segment.ended";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: NoData;
}

/** The run began. */
export interface RunStartedEvent extends RunEvent {
  /** The type. */
  type: "run.started";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: NoData;
}

/** The run completed. */
export interface RunCompletedEvent extends RunEvent {
  /** The type. */
  type: "run.completed";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: NoData;
}

/** The run failed. */
export interface RunFailedEvent extends RunEvent {
  /** The type. */
  type: "run.failed";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: RunError;
}

/** The run was cancelled. */
export interface RunCancelledEvent extends RunEvent {
  /** The type. */
  type: "run.cancelled";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: NoData;
}

/** Data of `inputs.materialised`. */
export interface InputsMaterialisedData {
  /** Objects of all parameters together. */
  objects: number;
  /** Their bytes. */
  bytes: number;
}

/** The objects of all `s3_prefix` parameters have been copied in. */
export interface InputsMaterialisedEvent extends RunEvent {
  /** The type. */
  type: "inputs.materialised";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: InputsMaterialisedData;
}

/** Data of `step.started`. */
export interface StepStartedData {
  /** Number of the attempt, from 1. */
  attempt: number;
}

/** An attempt of a step began. */
export interface StepStartedEvent extends RunEvent {
  /** The type. */
  type: "step.started";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: StepStartedData;
}

/** Data of `step.progress`: what the agent gave. */
export interface StepProgressData {
  /** The agent's message. */
  message: string;
  [name: string]: unknown;
}

/** A step reports progress. */
export interface StepProgressEvent extends RunEvent {
  /** The type. */
  type: "step.progress";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: StepProgressData;
}

/** Data of `step.completed`. */
export interface StepCompletedData {
  /** Files that the step left. */
  outputs: number;
}

/** A step completed. */
export interface StepCompletedEvent extends RunEvent {
  /** The type. */
  type: "step.completed";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: StepCompletedData;
}

/** Data of `step.failed`. */
export interface StepFailedData {
  /** `node_failed`. */
  code: string;
  /** Kind of failure, as the name of the exception that the agent raised. */
  type: string;
  /** For a person. */
  message: string;
  /** Number of the attempt, from 1. */
  attempt: number;
  /** When the next attempt begins; null where this was the last. */
  retry_at: string | null;
}

/** An attempt of a step failed. */
export interface StepFailedEvent extends RunEvent {
  /** The type. */
  type: "step.failed";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: StepFailedData;
}

/** Data of `step.skipped`. */
export interface StepSkippedData {
  /** Which step it needs, and where that one stands. */
  reason: string;
}

/** A step will not run: its condition is false, or a step that it needs failed or was skipped. */
export interface StepSkippedEvent extends RunEvent {
  /** The type. */
  type: "step.skipped";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: StepSkippedData;
}

/** Data of `approval.requested`. */
export interface ApprovalRequestedData {
  /** The approval. */
  approval_id: string;
  /** What is asked. */
  title: string;
}

/** A person is asked for an approval. */
export interface ApprovalRequestedEvent extends RunEvent {
  /** The type. */
  type: "approval.requested";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: ApprovalRequestedData;
}

/** Data of `approval.decided`. */
export interface ApprovalDecidedData {
  /** The approval. */
  approval_id: string;
  /** What was decided. */
  decision: ApprovalDecision;
  /**
   * The comment of the person, null for none, `deadline` where nobody decided it in time; absent where it could
   * not be swept for personal data.
   */
  comment?: string | null;
  /**
   * Values of the form, null for none; absent where the approval has no form, and where they could not be swept
   * for personal data.
   */
  form?: Record<string, unknown> | null;
}

/** What a person decided. */
export type ApprovalDecision = "approved" | "rejected";

/** A person decided an approval, or its deadline rejected it. */
export interface ApprovalDecidedEvent extends RunEvent {
  /** The type. */
  type: "approval.decided";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: ApprovalDecidedData;
}

/** Data of `output.promoted`. Of a run that is swept for personal data only the id is given: names may hold some. */
export interface OutputPromotedData {
  /** The output. */
  output_id: string;
  /** `<step>/<relative path>`. */
  path?: string;
  /** Bytes. */
  size_bytes?: number;
}

/** A file of a step became an output of the run. */
export interface OutputPromotedEvent extends RunEvent {
  /** The type. */
  type: "output.promoted";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: OutputPromotedData;
}

/** Data of `redaction.started`. */
export interface RedactionStartedData {
  /** The stage. */
  stage: PiiStage;
}

/** A redaction stage began. */
export interface RedactionStartedEvent extends RunEvent {
  /** The type. */
  type: "redaction.started";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: RedactionStartedData;
}

/** Data of `redaction.completed`. */
export interface RedactionCompletedData {
  /** The stage. */
  stage: PiiStage;
  /** Files swept. */
  files: number;
  /** Values found. */
  values: number;
}

/** A redaction stage ended. */
export interface RedactionCompletedEvent extends RunEvent {
  /** The type. */
  type: "redaction.completed";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: RedactionCompletedData;
}

/** Data of `publish.started`. */
export interface PublishStartedData {
  /** Name of the knowledge graph. */
  knowledge_graph: string;
}

/** A publication began. */
export interface PublishStartedEvent extends RunEvent {
  /** The type. */
  type: "publish.started";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: PublishStartedData;
}

/** Data of `publish.completed`. */
export interface PublishCompletedData {
  /** Name of the knowledge graph. */
  knowledge_graph: string;
  /** Name of the graph in it that holds what was published. */
  graph: string;
  /** Triples in that graph. */
  triples: number;
}

/** A publication landed. */
export interface PublishCompletedEvent extends RunEvent {
  /** The type. */
  type: "publish.completed";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: PublishCompletedData;
}

/** Data of `warning`. */
export interface WarningData {
  /** For a person; most of these stand in the run's `warnings` too. */
  message: string;
  /** Name of the knowledge graph that did not take a publication, where the warning is about one. */
  knowledge_graph?: string;
  /** Number of the attempt, where the warning is about one attempt of a step. */
  attempt?: number;
  /** Events of the attempt that were dropped, where the warning is about these. */
  dropped?: number;
  /** Whether `dropped` is final, or what was known when the attempt was ended. */
  exact?: boolean;
  [name: string]: unknown;
}

/** Something did not land, was cut or was left out; the run goes on. */
export interface WarningEvent extends RunEvent {
  /** The type. */
  type: "warning";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: WarningData;
}

/** Data of `step.reused`. */
export interface StepReusedData {
  /** The run in which the step completed. */
  run_id: string;
  /** Files of the step that were copied from that run. */
  outputs: number;
}

/** A resumed run reuses a completed step of an earlier run. */
export interface StepReusedEvent extends RunEvent {
  /** The type. */
  type: "step.reused";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: StepReusedData;
}

/** Data of `approval.reminded`. */
export interface ApprovalRemindedData {
  /** The approval. */
  approval_id: string;
  /** When it expires; null for never. */
  deadline_at: string | null;
}

/** An approval still waits for a person. */
export interface ApprovalRemindedEvent extends RunEvent {
  /** The type. */
  type: "approval.reminded";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: ApprovalRemindedData;
}

/** Data of `approval.expired`. */
export interface ApprovalExpiredData {
  /** The approval. */
  approval_id: string;
  /** How its deadline ends it. */
  on_deadline: DeadlineAction;
}

/** How a deadline that passes ends an approval; none approves. */
export type DeadlineAction = "reject" | "fail";

/** The deadline of an approval passed before anybody decided it. */
export interface ApprovalExpiredEvent extends RunEvent {
  /** The type. */
  type: "approval.expired";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: ApprovalExpiredData;
}

/** Data of `step.item_completed`. */
export interface StepItemCompletedData {
  /** Its place in the list, from 0. */
  item_index: number;
  /** Number of the attempt, from 1; 0 where it completed in the run that this one resumes. */
  attempt: number;
  /** Files that the item left. */
  outputs: number;
}

/** An item of a fan-out completed. */
export interface StepItemCompletedEvent extends RunEvent {
  /** The type. */
  type: "step.item_completed";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: StepItemCompletedData;
}

/** Data of `step.item_failed`. */
export interface StepItemFailedData {
  /** Its place in the list, from 0. */
  item_index: number;
  /** Kind of failure, as the name of the exception that the agent raised. */
  type: string;
  /** For a person. */
  message: string;
  /** Number of the attempt, from 1. */
  attempt: number;
  /** When the next attempt of the item begins; null where this was the last. */
  retry_at: string | null;
}

/** An attempt of an item of a fan-out failed. */
export interface StepItemFailedEvent extends RunEvent {
  /** The type. */
  type: "step.item_failed";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: StepItemFailedData;
}

/** Data of `step.tool_call`: nothing of what the model sent or got. */
export interface StepToolCallData {
  /** Name of the function that the model called. */
  tool: string;
  /** How long the call took, in milliseconds. */
  duration_ms: number;
  /** Bytes of the arguments, as JSON. */
  input_bytes: number;
  /** Bytes of the result, as JSON. */
  output_bytes: number;
  /** Whether the call gave a result, rather than an error. */
  ok: boolean;
  /** Number of the attempt of the step, from 1. */
  attempt: number;
  /** Index of the item that the attempt is for, from 0; null where the step has no items. */
  item_index: number | null;
}

/** The model of a step called a tool. */
export interface StepToolCallEvent extends RunEvent {
  /** The type. */
  type: "step.tool_call";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: StepToolCallData;
}

/** Data of `child.started` and `child.ended`. */
export interface ChildData {
  /** The child. */
  run_id: string;
  /** Its status: `queued` as it starts, its final one as it ends. */
  status: RunStatus;
  /** Index of the item that it is for, from 0; null where the step has no items. */
  item_index: number | null;
}

/** A step started a run of another workflow, a child. */
export interface ChildStartedEvent extends RunEvent {
  /** The type. */
  type: "child.started";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: ChildData;
}

/** A child ended. */
export interface ChildEndedEvent extends RunEvent {
  /** The type. */
  type: "child.ended";
  /** Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting. */
  data: ChildData;
}

/** A runtime segment of a run. */
export interface Segment {
  /** The segment. */
  segment_id: string;
  /** 1 for the first. */
  ordinal: number;
  /** When it began. */
  started_at: string | null;
  /** When it ended. */
  ended_at: string | null;
  /** Seq of its last event; 0 when none. */
  last_seq: number;
}

/** The steps of a run. */
export interface ListRunStepsResponse {
  /** The steps in the order of the definition. */
  items: Step[];
}

/** A step of a run's board. */
export interface Step {
  /** Handle, unique within the workflow. */
  step: string;
  /** Name for a person. */
  name: string;
  /** Agent or approval. */
  kind: StepKind;
  /** Where it stands. */
  status: StepStatus;
  /** Handles of the steps before it. */
  needs: string[];
  /** Its agent; null for an approval. */
  agent_id: string | null;
  /** The segment that ran it last. */
  segment_id: string | null;
  /** Tries so far. */
  attempt: number;
  /** Whether the run completes without it. */
  optional: boolean;
  /** When it began. */
  started_at: string | null;
  /** When it ended. */
  finished_at: string | null;
  /** finished_at - started_at in milliseconds. */
  duration_ms: number | null;
  /** Why it failed or was blocked. */
  error: RunError | null;
  /** The run whose completed step it is, with its value and its files; null for a step that ran in this run. */
  reused_from: string | null;
  /** The items of a fan-out, once it has listed them; null for any other step. */
  items: StepItems | null;
}

/** What a step is. */
export type StepKind = "agent" | "approval" | "workflow";

/** Where a step stands. */
export type StepStatus = "pending" | "running" | "waiting_for_approval" | "completed" | "failed" | "skipped" | "cancelled" | "blocked";

/** How many items a fan-out has, and how many of them have ended. */
export interface StepItems {
  /** All items. */
  total: number;
  /** Items that completed. */
  completed: number;
  /** Items that failed, and are not tried again. */
  failed: number;
}

/** The outputs of a run. */
export interface ListOutputsResponse {
  /** The outputs by path. */
  items: Output[];
  /** Bytes of all of them. */
  total_bytes: number;
  /** All of them as one zip. */
  bundle: OutputBundle;
}

/** A promoted output. */
export interface Output {
  /** The output. */
  output_id: string;
  /** Last part of the path. */
  name: string;
  /**
   * `<step>/<relative path>`, also the entry's name in the zip. Backslashes, control characters, drive prefixes,
   * and dots and blanks at the end of a part are percent-encoded.
   */
  path: string;
  /** The step that made it; null for `result.json`. */
  step: string | null;
  /** Media type. */
  media_type: string;
  /** Bytes. */
  size_bytes: number;
  /** SHA-256 in hexadecimal. */
  sha256: string;
  /** When it was promoted. */
  created_at: string;
  /** Where to download it. */
  download: OutputDownload;
}

/** Where to download an output. */
export interface OutputDownload {
  /** Absolute path on the host. */
  path: string;
}

/** Where to download all outputs. */
export interface OutputBundle {
  /** Absolute path on the host. */
  path: string;
}

/** An event of any type; `event.type` tells which. */
export type AnyEvent =
  | SegmentStartedEvent
  | SegmentEndedEvent
  | RunStartedEvent
  | RunCompletedEvent
  | RunFailedEvent
  | RunCancelledEvent
  | InputsMaterialisedEvent
  | StepStartedEvent
  | StepProgressEvent
  | StepCompletedEvent
  | StepFailedEvent
  | StepSkippedEvent
  | ApprovalRequestedEvent
  | ApprovalDecidedEvent
  | OutputPromotedEvent
  | RedactionStartedEvent
  | RedactionCompletedEvent
  | PublishStartedEvent
  | PublishCompletedEvent
  | WarningEvent
  | StepReusedEvent
  | ApprovalRemindedEvent
  | ApprovalExpiredEvent
  | StepItemCompletedEvent
  | StepItemFailedEvent
  | StepToolCallEvent
  | ChildStartedEvent
  | ChildEndedEvent;
