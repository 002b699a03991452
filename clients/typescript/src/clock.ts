/** Clock of the client's retries and pauses, which tests replace. */

/** A clock that never goes back; `now` is in seconds. */
export interface Clock {
  now(): number;
  /** Waits for `seconds`; rejects with the signal's reason once it is aborted. */
  sleep(seconds: number, signal?: AbortSignal): Promise<void>;
}

/** The clock of the machine. */
export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now() / 1000,
  sleep: (seconds, signal) =>
    new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const abort = (): void => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", abort);
        resolve();
      }, seconds * 1000);
      signal?.addEventListener("abort", abort, { once: true });
    }),
};
