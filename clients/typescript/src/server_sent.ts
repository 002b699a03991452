/** Incremental parser of server-sent events. */

import { UnexpectedAnswerError } from "./failures.js";

/** One message of an event stream. */
export interface Message {
  kind: string;
  id: string;
  data: string;
}

const MAX_LINE_LENGTH = 4 * 2 ** 20;
const LINE_END = /\r\n|\n|\r(?!$)/;

/** Parser of pieces of a stream into messages; drops comments. */
export class Parser {
  readonly #decoder = new TextDecoder();
  #rest = "";
  #kind = "";
  #id = "";
  #data: string[] = [];

  /** Yields the messages that a piece completes. */
  *feed(piece: Uint8Array): Generator<Message> {
    const lines = (this.#rest + this.#decoder.decode(piece, { stream: true })).split(LINE_END);
    this.#rest = lines.pop() ?? "";
    if (this.#rest.length > MAX_LINE_LENGTH) {
      throw new UnexpectedAnswerError("A line of the stream of events is too long.");
    }
    for (const line of lines) {
      if (line) {
        this.#field(line);
        continue;
      }
      const message = { kind: this.#kind || "message", id: this.#id, data: this.#data.join("\n") };
      const complete = this.#data.length > 0 || this.#kind !== "";
      this.#kind = "";
      this.#data = [];
      if (complete) yield message;
    }
  }

  #field(line: string): void {
    const [, name, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (name === "event") this.#kind = value;
    else if (name === "id") this.#id = value;
    else if (name === "data") this.#data.push(value);
  }
}
