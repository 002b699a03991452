/** Messages to webhooks. Made from the protos by `make generate`; never edited by hand. */

/** The run; everything else of it is read with the key. */
export interface RunWebhookData {
  /** The run. */
  run_id: string;
  /** Its workflow. */
  workflow_id: string;
  /** The run's status at that time. */
  status: "queued" | "running" | "waiting_for_approval" | "completed" | "failed" | "cancelled";
  /** The reference that the caller gave. */
  client_reference: string | null;
  /** The run that it took over from; absent without one. */
  resumed_from?: string;
}

/** A message to the receiver of a webhook. */
export interface RunWebhookMessage {
  /** Equal at every attempt: ignore ids that were processed. */
  id: string;
  /** The webhook. */
  type: "run.ended" | "run.waiting_for_approval" | "run.erased" | "approval.reminded" | "approval.expired";
  /** When it happened. */
  timestamp: string;
  /** The run; everything else of it is read with the key. */
  data: RunWebhookData;
}

/** The decision. */
export interface ScheduleWebhookData {
  /** The workflow. */
  workflow_id: string;
  /** Name of the schedule, or id of the planned start. */
  schedule: string;
  /** Why due times were skipped, or the code of the refusal. */
  reason: string;
  /** The due time, of several the last. */
  due_at: string;
  /** The first of skipped due times. */
  first_due_at?: string;
  /** Skipped due times, counted to 10,000. */
  count?: number;
  /** The refusal, for a person. */
  message?: string;
}

/** A message to the receiver of a webhook. */
export interface ScheduleWebhookMessage {
  /** Equal at every attempt: ignore ids that were processed. */
  id: string;
  /** The webhook. */
  type: "schedule.skipped" | "schedule.failed";
  /** When it happened. */
  timestamp: string;
  /** The decision. */
  data: ScheduleWebhookData;
}
