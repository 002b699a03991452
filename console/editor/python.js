// Python in the blocks of text of `code`, in the colours of the console. Expressions tell its words apart well enough for
// colours, and are a twentieth of a parser's size.
import { Prec, RangeSetBuilder } from "@codemirror/state";
import { Decoration, EditorView, ViewPlugin } from "@codemirror/view";
import { StyleModule } from "style-mod";

const STYLES = {
  comment: { color: "var(--soft)", fontStyle: "italic" },
  string: { color: "var(--good)" },
  named: { color: "var(--accent)" },
  keyword: { color: "var(--warn)" },
  // In place of the colour that texts of YAML have.
  plain: { color: "var(--text)" },
};
const names = Object.fromEntries(Object.keys(STYLES).map((kind) => [kind, StyleModule.newName()]));
const styles = new StyleModule(Object.fromEntries(Object.entries(STYLES).map(([kind, rules]) => [`.${names[kind]}`, rules])));
const marks = Object.fromEntries(Object.entries(names).map(([kind, name]) => [kind, Decoration.mark({ class: name })]));

const TOKEN = new RegExp([
  /(?<comment>#[^\n]*)/,
  /(?<string>[rRbBuUfF]{0,2}(?:"""(?:\\[^]|[^\\])*?(?:"""|$)|'{3}(?:\\[^]|[^\\])*?(?:'{3}|$)|"(?:[^"\\\n]|\\[^])*"?|'(?:[^'\\\n]|\\[^])*'?))/,
  /(?<named>(?<=\b(?:def|class) +)\w+)/,
  /(?<keyword>\b(?:and|as|assert|async|await|break|class|continue|def|del|elif|else|except|False|finally|for|from|global|if|import|in|is|lambda|None|nonlocal|not|or|pass|raise|return|True|try|while|with|yield)\b|@[\w.]+|\b\d[\w.]*)/,
  /\w+/,
].map(({ source }) => source).join("|"), "g");

const BEGIN = /^( *(?:- +)*)code: *[|>][-+0-9]*(?: +#.*)?$/;
const indentOf = (text) => (text.trim() ? /^ */.exec(text)[0].length : Infinity);

// Yields the lines of each block, as { from, text } without the indentation of the block.
function* blocksIn(doc) {
  for (let number = 1; number <= doc.lines; number++) {
    const begin = BEGIN.exec(doc.line(number).text);
    if (!begin) continue;
    const lines = [];
    while (number < doc.lines && indentOf(doc.line(number + 1).text) > begin[1].length) lines.push(doc.line(++number));
    const indent = Math.min(...lines.map(({ text }) => indentOf(text)));
    yield lines.map(({ from, text }) => ({ from: from + Math.min(indent, text.length), text: text.slice(indent) }));
  }
}

function decorations(doc) {
  const builder = new RangeSetBuilder();
  const add = (from, to, kind) => { if (from < to) builder.add(from, to, marks[kind]); };
  for (const lines of blocksIn(doc)) {
    const code = lines.map(({ text }) => text).join("\n");
    const tokens = [...code.matchAll(TOKEN)].map(({ 0: { length }, index, groups }) => (
      { from: index, to: index + length, kind: Object.keys(groups).find((kind) => groups[kind] !== undefined) ?? "plain" }));
    let start = 0;
    let next = 0;
    for (const { from, text } of lines) {
      const end = start + text.length;
      const place = (at) => from + Math.min(Math.max(at, start), end) - start;
      let done = start;
      for (; next < tokens.length && tokens[next].from < end; next++) {
        const token = tokens[next];
        add(place(done), place(token.from), "plain");
        add(place(token.from), place(token.to), token.kind);
        done = Math.min(token.to, end);
        // Its rest is on the lines below.
        if (token.to > end) break;
      }
      add(place(done), place(end), "plain");
      start = end + 1;
    }
  }
  return builder.finish();
}

const colours = ViewPlugin.define((view) => ({
  decorations: decorations(view.state.doc),
  update(change) { if (change.docChanged) this.decorations = decorations(change.state.doc); },
}), { decorations: (plugin) => plugin.decorations });

// The marks are inside those of YAML, so that their colours count.
export const pythonBlocks = [Prec.highest(colours), EditorView.styleModule.of(styles)];
