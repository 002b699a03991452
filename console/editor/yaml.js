// YAML in the colours of the console, which follow its theme, and its indentation. A tokenizer by lines suffices for both,
// and is a quarter of a parser's size.
import { HighlightStyle, StreamLanguage, indentService, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.string, color: "var(--good)" },
  { tag: [tags.labelName, tags.typeName, tags.meta], color: "var(--warn)" },
  { tag: tags.comment, color: "var(--soft)", fontStyle: "italic" },
]);

const KEY = /^(?:"[^"]*"|'[^']*'|[^\s#:"'[\]{},&*!|>%@`][^#:[\]{},]*?)(?=\s*:(?:\s|$))/;
const BLOCK = /^[|>][-+0-9]*(?=\s*(?:#|$))/;
const REST = { '"': /^(?:[^"\\]|\\.)*(?:"|\\?$)/, "'": /^(?:[^']|'')*(?:'|$)/ };
const WORD = /^(?:[^\s:]|:(?!\s|$))+/;
const WORD_IN_BRACKETS = /^(?:[^\s:,[\]{}]|:(?!\s|$))+/;

// `column` is of the last key or dash; a block of text, below the column `block`, and a quotation may have many lines.
const startState = () => ({ column: 0, block: null, quote: "", brackets: 0 });

function token(stream, state) {
  if (state.block !== null && stream.sol()) {
    if (stream.indentation() > state.block || !stream.string.trim()) {
      stream.skipToEnd();
      return "string";
    }
    state.block = null;
  }
  if (state.quote) return quotation(stream, state);
  const spaced = stream.sol() || /\s/.test(stream.string[stream.pos - 1] ?? "");
  if (stream.eatSpace()) return null;
  if (spaced && stream.match(/^#.*/)) return "comment";
  if (stream.sol() && stream.match(/^(?:---|\.\.\.)(?=\s|$)/)) return "meta";
  const column = stream.column();
  if (stream.match(/^-(?=\s|$)/)) {
    state.column = column;
    return null;
  }
  if (stream.match(KEY)) {
    state.column = column;
    return "propertyName";
  }
  if (stream.match(BLOCK)) {
    state.block = state.column;
    return "meta";
  }
  if (stream.match(/^[&*][^\s,[\]{}]+/)) return "labelName";
  if (stream.match(/^![^\s,[\]{}]*/)) return "typeName";
  if (/["']/.test(stream.peek())) {
    state.quote = stream.next();
    return quotation(stream, state);
  }
  const bracket = stream.eat(/[[\]{}]/);
  if (bracket) {
    state.brackets = Math.max(state.brackets + ("[{".includes(bracket) ? 1 : -1), 0);
    return null;
  }
  if (stream.match(state.brackets ? WORD_IN_BRACKETS : WORD)) return "string";
  stream.next();
  return null;
}

function quotation(stream, state) {
  const [text] = stream.match(REST[state.quote]);
  if (text.endsWith(state.quote)) state.quote = "";
  return "string";
}

// A new line stands below the text of the one before, and deeper below what has its value on the next lines.
const indentation = indentService.of((context, pos) => {
  if (context.simulatedBreak !== pos) return undefined;
  const { from, text } = context.state.doc.lineAt(pos);
  const line = text.slice(0, pos - from).replace(/(?:^|\s)#.*$/, "").trimEnd();
  const [{ length }] = /^ *(?:- +)*/.exec(line);
  return /(?:[:[{]|[:-] [|>][-+0-9]*)$/.test(line) ? length + context.unit : length;
});

const language = StreamLanguage.define({
  name: "yaml", startState, token, languageData: { commentTokens: { line: "#" } },
});

export const manifestLanguage = [language, indentation, syntaxHighlighting(colours)];
