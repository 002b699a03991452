/** `Client`, with workflows and runs. */

import { SYSTEM_CLOCK } from "./clock.js";
import { Core, randomId, type CallOptions } from "./core.js";
import { ApiError } from "./failures.js";
import type * as records from "./generated/records.js";
import * as routes from "./generated/routes.js";
import { Run } from "./run.js";
import { checked, fromEnvironment, type ClientOptions } from "./settings.js";

/** Inputs and options of a start. */
export interface StartOptions extends CallOptions {
  parameters?: Readonly<Record<string, unknown>> | undefined;
  inputText?: string | undefined;
  clientReference?: string | undefined;
  labels?: Readonly<Record<string, string>> | undefined;
  piiPolicyOverride?: Partial<records.PiiPolicy> | undefined;
  version?: number | undefined;
  /** All starts with this key within 24 hours are one run; by default only the retries of this call are. */
  idempotencyKey?: string | undefined;
}

/** Filters of the list of runs. */
export interface RunFilters {
  status?: records.RunStatus | readonly records.RunStatus[] | undefined;
  workflowId?: string | undefined;
  clientReference?: string | undefined;
  createdAfter?: Date | undefined;
  createdBefore?: Date | undefined;
}

/** Place of a page of runs. */
export interface PageOptions extends CallOptions {
  /** Most runs of the page, 1 to 100. */
  limit?: number | undefined;
  /** The `next_cursor` of the page before. */
  cursor?: string | undefined;
}

interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

type Query = Record<string, string | number | undefined>;

const PAGE = 100;
const ID = /^wf_[0-9a-z]{26}$/;
const IDEMPOTENCY_KEY = /^[ -~]{1,128}$/;
const LONGEST_PREFIX = 200;

/** Client that calls the service with one key. */
export class Client {
  readonly workflows: Workflows;
  readonly runs: Runs;
  readonly #core: Core;

  /** `url` is the service's address, with or without `/api/v1`. Throws ConfigurationError. */
  constructor(url: string, options: ClientOptions) {
    const fetch = options.fetch ?? ((address, init) => globalThis.fetch(address, init));
    this.#core = new Core(checked(url, options), options.clock ?? SYSTEM_CLOCK, fetch);
    this.workflows = new Workflows(this.#core);
    this.runs = new Runs(this.#core);
  }

  /** Returns a client for WORKFLOW_API_URL, WORKFLOW_API_KEY and WORKFLOW_API_EXTERNAL_ID of the environment. */
  static fromEnv(options: Omit<ClientOptions, "key" | "externalId"> = {}): Client {
    const { url, key, externalId } = fromEnvironment();
    return new Client(url, { ...options, key, externalId });
  }

  /** Returns the calling key and its limits. */
  async me(options?: CallOptions): Promise<records.ApiKey> {
    return this.#core.bounded(options).json(routes.GET_ME);
  }

  /** Returns whether the API accepts keys. */
  async health(options?: CallOptions): Promise<records.Health> {
    return this.#core.bounded(options).json(routes.GET_HEALTH);
  }
}

/** The workflows within the key's reach. */
export class Workflows {
  constructor(private readonly core: Core) {}

  /** Yields the active workflows by name; with `q` only names that begin with this text. */
  list(q?: string, options?: CallOptions): AsyncGenerator<records.Workflow, void, void> {
    return items(this.core.bounded(options), routes.LIST_WORKFLOWS, { q });
  }

  /** Returns a workflow by name or id; throws `workflow_not_found`. */
  async get(workflow: string, options?: CallOptions): Promise<records.Workflow> {
    const core = this.core.bounded(options);
    if (ID.test(workflow)) return core.json(routes.GET_WORKFLOW, { path: { workflow_id: workflow } });
    for await (const one of new Workflows(core).list(workflow.slice(0, LONGEST_PREFIX))) {
      if (one.name === workflow) return one;
    }
    const refusal = { code: "workflow_not_found", status: 404, requestId: null };
    throw new ApiError(`No active workflow within the key's reach is named ${JSON.stringify(workflow)}.`, refusal);
  }

  /** Returns the parameters of a workflow, by name or id. */
  async parameters(workflow: string, options?: CallOptions): Promise<records.Parameter[]> {
    const core = this.core.bounded(options);
    const path = { workflow_id: await idOf(core, workflow) };
    return (await core.json<records.ListParametersResponse>(routes.LIST_PARAMETERS, { path })).parameters;
  }
}

/** The key's runs. */
export class Runs {
  constructor(private readonly core: Core) {}

  /** Starts a run of a workflow by name or id; repeats send one idempotency key. */
  async start(workflow: string, options: StartOptions = {}): Promise<Run> {
    const key = options.idempotencyKey ?? randomId();
    if (!IDEMPOTENCY_KEY.test(key)) {
      throw new RangeError("`idempotencyKey` must be 1 to 128 printable ASCII characters.");
    }
    const core = this.core.bounded(options);
    const record = await core.json<records.Run>(routes.START_RUN, {
      path: { workflow_id: await idOf(core, workflow) },
      body: {
        parameters: options.parameters,
        input_text: options.inputText,
        client_reference: options.clientReference,
        labels: options.labels,
        pii_policy_override: options.piiPolicyOverride,
        version: options.version,
      },
      headers: { "Idempotency-Key": key },
    });
    return new Run(this.core, record);
  }

  /** Returns a run of this key; throws `run_not_found`. */
  async get(runId: string, options?: CallOptions): Promise<Run> {
    const path = { run_id: runId };
    return new Run(this.core, await this.core.bounded(options).json<records.Run>(routes.GET_RUN, { path }));
  }

  /** Yields the key's runs that match all filters, newest first. */
  list(filters: RunFilters = {}, options?: CallOptions): AsyncGenerator<records.RunSummary, void, void> {
    return items(this.core.bounded(options), routes.LIST_RUNS, queryOf(filters));
  }

  /** Returns a page of runs; throws `invalid_cursor` for a cursor of another list or key. */
  async page(filters: RunFilters = {}, options: PageOptions = {}): Promise<records.ListRunsResponse> {
    const query = { limit: PAGE, ...queryOf(filters), cursor: options.cursor };
    if (options.limit !== undefined) query.limit = options.limit;
    return this.core.bounded(options).json(routes.LIST_RUNS, { query });
  }
}

async function idOf(core: Core, workflow: string): Promise<string> {
  return ID.test(workflow) ? workflow : (await new Workflows(core).get(workflow)).workflow_id;
}

/** Yields the items of all pages of a list; each page is read when its first item is needed. */
async function* items<T>(core: Core, route: routes.Route, query: Query): AsyncGenerator<T, void, void> {
  let cursor: string | undefined;
  do {
    const page: Page<T> = await core.json(route, { query: { limit: PAGE, ...query, cursor } });
    yield* page.items;
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
}

function queryOf(filters: RunFilters): Query {
  const { status } = filters;
  return {
    status: typeof status === "object" ? status.join(",") : status,
    workflow_id: filters.workflowId,
    client_reference: filters.clientReference,
    created_after: filters.createdAfter?.toISOString(),
    created_before: filters.createdBefore?.toISOString(),
  };
}
