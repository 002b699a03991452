// The editor of manifests: takes the place of a text area, which keeps the text for the form.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { indentOnInput, indentUnit } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { StyleModule } from "style-mod";
import { manifestLanguage } from "./yaml.js";

// The console's policy allows no <style>: the rules become a style sheet of the document, in a layer below the console's.
const sheet = new CSSStyleSheet();
StyleModule.mount = (_, modules) => {
  sheet.replaceSync(`@layer editor {${[modules].flat().map((each) => each.getRules()).join("\n")}}`);
  if (!document.adoptedStyleSheets.includes(sheet)) document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
};

// Events of a person who turns to the editor.
const TURNS = ["focusin", "pointerover"];

const indented = (line) => line.from + line.text.length - line.text.trimStart().length;

// Replaces a text area by an editor; returns how to choose a line, to show problems, and to focus it.
export function replace(area, { readSchema, label, help, longest, changed }) {
  // Who types already goes on in the editor.
  const focused = document.activeElement === area;
  const later = new Compartment();
  const view = new EditorView({
    state: EditorState.create({
      doc: area.value,
      selection: { anchor: area.selectionStart, head: area.selectionEnd },
      extensions: [
        lineNumbers(), lintGutter(), history(), drawSelection(), indentOnInput(),
        highlightActiveLine(), indentUnit.of("  "), EditorState.tabSize.of(2),
        keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap, indentWithTab]),
        manifestLanguage, later.of([]),
        EditorState.changeFilter.of((change) => !change.docChanged || change.newDoc.length <= Math.max(longest, change.startState.doc.length)),
        EditorView.contentAttributes.of({ "aria-labelledby": label, "aria-describedby": help, autocapitalize: "off", tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          area.value = update.state.doc.toString();
          changed();
        }),
      ],
    }),
  });
  area.parentElement.after(view.dom);
  area.parentElement.hidden = true;
  for (const turn of TURNS) view.dom.addEventListener(turn, addLater);
  if (focused) view.focus();

  // Who typed while the parts were loading is offered completions.
  async function addLater() {
    for (const turn of TURNS) view.dom.removeEventListener(turn, addLater);
    const before = view.state.doc;
    try {
      const { laterParts } = await import("./later.js");
      view.dispatch({ effects: later.reconfigure(laterParts(readSchema)) });
      if (view.state.doc !== before) view.dispatch({ userEvent: "input.type" });
    } catch (error) {
      console.warn("The editor has no completion, explanations and search:", error);
    }
  }

  function choose(number) {
    const line = view.state.doc.line(Math.min(Math.max(number, 1), view.state.doc.lines));
    view.dispatch({ selection: { anchor: indented(line), head: line.to }, effects: EditorView.scrollIntoView(line.from, { y: "center" }) });
    view.focus();
  }

  // Problems are { line, message }.
  function show(problems) {
    const { doc } = view.state;
    view.dispatch(setDiagnostics(view.state, problems.map(({ line, message }) => {
      const found = doc.line(Math.min(Math.max(line, 1), doc.lines));
      return { from: indented(found), to: found.to, severity: "error", message };
    })));
  }

  return { choose, show, focus: () => view.focus() };
}
