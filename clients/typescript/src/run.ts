/** A run, with its events and outputs. */

import type { CallOptions, Core } from "./core.js";
import { RunFailedError, RunNotFinishedError } from "./failures.js";
import { events, type EventOptions } from "./following.js";
import type * as records from "./generated/records.js";
import * as routes from "./generated/routes.js";
import { Outputs, type DownloadOptions } from "./outputs.js";
import { isTerminal, wait } from "./waiting.js";

/** Options of waiting for a run. */
export interface WaitOptions extends CallOptions {
  /** True to return also when the run waits for a person. */
  orApproval?: boolean | undefined;
}

/** A run: its last known state, and calls that follow, cancel or erase it. */
export class Run {
  readonly outputs: Outputs;

  constructor(
    private readonly core: Core,
    /** The service's last answer, with every field. */
    public record: records.Run,
  ) {
    this.outputs = new Outputs(core, record.run_id);
  }

  get id(): string {
    return this.record.run_id;
  }

  get status(): records.RunStatus {
    return this.record.status;
  }

  /** True once the run has completed, failed or was cancelled. */
  get isFinished(): boolean {
    return isTerminal(this.status);
  }

  /**
   * The result of a completed run; null without one, or if it is so large that `fetchResult()` must download it.
   *
   * Throws RunNotFinishedError before the end, and RunFailedError if the run failed or was cancelled.
   */
  get result(): unknown {
    if (!this.isFinished) throw new RunNotFinishedError(`${this.id} is ${this.status}.`);
    if (this.status !== "completed") {
      throw new RunFailedError(this.error?.code ?? this.status, this.error?.message ?? null);
    }
    return this.record.result ?? null;
  }

  /** The summary from the run's result step, in Markdown. */
  get summary(): string | null {
    return this.record.summary_markdown;
  }

  /** The error of a failed run. */
  get error(): records.RunError | null {
    return this.record.error ?? null;
  }

  /** Reads the run again; returns it. */
  async refresh(options?: CallOptions): Promise<this> {
    this.record = await this.#get<records.Run>(routes.GET_RUN, options);
    return this;
  }

  /**
   * Waits until the run has ended and its outputs can be read; returns the run, also if it failed.
   *
   * Throws TimedOutError after `timeoutSeconds`; the run goes on.
   */
  async wait(options: WaitOptions = {}): Promise<this> {
    const core = this.core.bounded({ signal: options.signal });
    this.record = await wait(core, this.id, options.timeoutSeconds, options.orApproval);
    return this;
  }

  /** Yields the run's events in order, each once; with `live` to the end of the run, as they happen. */
  events(options: EventOptions = {}): AsyncGenerator<records.AnyEvent, void, void> {
    return events(this.core.bounded({ signal: options.signal }), this.id, options);
  }

  /** Returns the run's steps in the order of the workflow. */
  async steps(options?: CallOptions): Promise<records.Step[]> {
    return (await this.#get<records.ListRunStepsResponse>(routes.LIST_RUN_STEPS, options)).items;
  }

  /** Returns the pending approvals of the run, which people decide, not callers. */
  async approvals(options?: CallOptions): Promise<records.Approval[]> {
    return (await this.#get<records.ListRunApprovalsResponse>(routes.LIST_RUN_APPROVALS, options)).items;
  }

  /** Returns the counts of personal data that redaction found and replaced. */
  async piiRedaction(options?: CallOptions): Promise<records.PiiRedaction> {
    return this.#get(routes.GET_PII_REDACTION, options);
  }

  /** Returns the result of a completed run; downloads a result that is too large for the run's record. */
  async fetchResult(options?: CallOptions): Promise<unknown> {
    if (this.result !== null || this.record.result_json === null) return this.result;
    return JSON.parse(new TextDecoder().decode(await this.outputs.read("result.json", options)));
  }

  /** Writes all outputs as one zip, checked against the listed digests of its files. For Node.js. */
  async downloadZip(path: string, options: DownloadOptions = {}): Promise<string> {
    const files = await import("./files.js");
    return files.downloadZip(this.core.bounded(options), this.id, path, options.progress);
  }

  /** Requests the cancellation of the run; throws `already_terminal` if it has ended. */
  async cancel(reason?: string, options?: CallOptions): Promise<records.CancelRunResponse> {
    return this.#change(routes.CANCEL_RUN, reason, options);
  }

  /** Erases the inputs, outputs and other data of an ended run for good; throws `run_not_terminal` before its end. */
  async erase(reason?: string, options?: CallOptions): Promise<records.EraseRunDataResponse> {
    return this.#change(routes.ERASE_RUN_DATA, reason, options);
  }

  #get<T>(route: routes.Route, options?: CallOptions): Promise<T> {
    return this.core.bounded(options).json<T>(route, { path: { run_id: this.id } });
  }

  #change<T>(route: routes.Route, reason: string | undefined, options?: CallOptions): Promise<T> {
    return this.core.bounded(options).json<T>(route, { path: { run_id: this.id }, body: { reason } });
  }
}
