/** Waits for the end of a run, or for an approval. */

import type { Answer } from "./exchange.js";
import type { Clock } from "./clock.js";
import { jsonOf, type Core } from "./core.js";
import { TimedOutError } from "./failures.js";
import type { Run, RunStatus } from "./generated/records.js";
import { GET_RUN } from "./generated/routes.js";

/** Most seconds for which the service holds an answer. */
export const HELD_SECONDS = 30;
/** Least seconds between two polls while the service does not hold answers. */
export const POLL_SECONDS = 5;

const EARLY_SECONDS = 0.5;
const TERMINAL: ReadonlySet<RunStatus> = new Set<RunStatus>(["completed", "failed", "cancelled"]);
const NOT_MODIFIED = 304;

/** Returns whether a run has ended. */
export function isTerminal(status: RunStatus): boolean {
  return TERMINAL.has(status);
}

/** Returns the run once it is done, or with `orApproval` once it waits for a person. */
export async function wait(core: Core, runId: string, timeout?: number, orApproval = false): Promise<Run> {
  const watch = new RunWatch(core, runId, timeout === undefined ? undefined : core.clock.now() + timeout);
  try {
    // The first read is not held, because an earlier change would never end the wait.
    let run = await watch.look(false);
    while (!(isDone(run) || (orApproval && run.status === "waiting_for_approval"))) run = await watch.look();
    return run;
  } catch (error) {
    if (!(error instanceof TimedOutError)) throw error;
    throw new TimedOutError(`${runId} was not done within ${timeout} s.`, { cause: error.cause });
  }
}

/** Returns whether a run has ended and its outputs can be read, redacted where its policy says so. */
function isDone(run: Run): boolean {
  const stages = run.data_purged_at === null ? (run.pii_redaction?.stages ?? []) : [];
  return isTerminal(run.status) && !stages.some((one) => one.stage === "outputs" && one.status === "pending");
}

/** Repeated reads of one run, by held calls that the service answers at a change. */
export class RunWatch {
  /** True if the last read found a change. */
  changed = false;
  readonly #pace: PollPacer;
  #last: Answer | undefined;
  #pause = 0;

  constructor(
    private readonly core: Core,
    private readonly runId: string,
    private readonly deadline?: number,
  ) {
    this.#pace = new PollPacer(core.clock, deadline);
  }

  /** True once the run was read. */
  get seen(): boolean {
    return this.#last !== undefined;
  }

  /** Reads the run, with `held` after a change or a while; returns it. */
  async look(held = true): Promise<Run> {
    if (this.#pause) {
      const left = this.deadline === undefined ? Infinity : Math.max(0, this.deadline - this.core.clock.now());
      await this.core.pause(Math.min(left, this.#pause));
    }
    const seconds = this.#pace.begin(held);
    const tag = this.#last?.headers.get("etag");
    const answer = await this.core.call(GET_RUN, {
      path: { run_id: this.runId },
      query: { wait_seconds: seconds || undefined },
      headers: tag ? { "If-None-Match": tag } : {},
      deadline: this.deadline,
      held: seconds,
    });
    this.changed = answer.status !== NOT_MODIFIED && answer.text !== this.#last?.text;
    this.#pause = this.#pace.pauseAfter(this.changed);
    if (this.changed || this.#last === undefined) this.#last = answer;
    return jsonOf<Run>(this.#last);
  }
}

/**
 * Pacer of the polls of one resource.
 *
 * Each poll asks the service to hold its answer. After an early answer without news the service did not hold it (an
 * older service, or the key has reached its limit of held calls), and polls are five seconds apart until one is held.
 */
export class PollPacer {
  #begun: number;
  #asked = 0;
  #ignored = false;

  constructor(
    private readonly clock: Clock,
    private readonly deadline?: number,
  ) {
    this.#begun = clock.now();
  }

  /** Begins a poll; returns the seconds for which to ask the service to hold the answer. */
  begin(held: boolean): number {
    this.#begun = this.clock.now();
    const left = this.deadline === undefined ? HELD_SECONDS : Math.ceil(Math.max(0, this.deadline - this.#begun));
    this.#asked = held ? Math.min(HELD_SECONDS, left) : 0;
    return this.#asked;
  }

  /** Returns the seconds to wait after an answer, and notes whether the answer was held. */
  pauseAfter(news: boolean): number {
    const took = this.clock.now() - this.#begun;
    if (!news && this.#asked) this.#ignored = took < this.#asked - EARLY_SECONDS;
    return this.#ignored && this.#asked ? Math.max(0, POLL_SECONDS - took) : 0;
  }
}
