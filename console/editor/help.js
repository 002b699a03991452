// Completion and explanations from the JSON Schema, and completion of names that exist.
import { autocompletion } from "@codemirror/autocomplete";
import { hoverTooltip } from "@codemirror/view";
import { outline, scalar } from "./outline.js";
import { explanation, fieldsOf, isList, isObject, itemsOf, schemasOf, wordsOf } from "./schema.js";

// Fields whose value is the name of a definition, with the path of its pages.
const NAMED = {
  agent: "/agents/", environment: "/resources/environments/", connector: "/resources/connectors/",
  connectors: "/resources/connectors/", knowledge_graph: "/resources/graphs/", workflow: "/workflows/",
};

const linesOf = (state) => state.doc.toString().split("\n");

// Names that begin like what is typed, as the page /search finds them.
async function existing(path, typed) {
  const answer = await fetch(`/search?q=${encodeURIComponent(typed)}`, { headers: { "X-Refresh": "true" } });
  if (!answer.ok || answer.redirected) return [];
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return [...page.querySelectorAll(`#found a[href^="${path}"]`)].map((link) => link.firstElementChild.textContent);
}

function otherSteps(root, node) {
  const within = (place) => (!place ? null : place.parent?.name === "steps" ? place : within(place.parent));
  const own = within(node);
  return ["steps", "on_failure", "always"].flatMap((name) => root.children.get(name)?.entries ?? [])
    .filter((entry) => entry !== own).map((entry) => scalar(entry.children.get("step"))).filter(Boolean);
}

async function valuesOf(root, node, name, schemas, typed) {
  const words = wordsOf(schemas);
  if (words.length) return words.map((label) => ({ label, type: "constant" }));
  if (name === "needs" || (name === "step" && node.parent?.name === "result")) {
    return otherSteps(root, node).map((label) => ({ label, type: "variable" }));
  }
  if (NAMED[name]) return (await existing(NAMED[name], typed)).map((label) => ({ label, type: "variable" }));
  const examples = schemas.flatMap((each) => each.examples ?? []).filter((each) => typeof each !== "object");
  return examples.map((each) => ({ label: String(each), detail: "example", type: "text" }));
}

function options(fields, container) {
  return [...fields].filter(([name]) => !container.children.has(name)).map(([name, field]) => {
    const list = isList(field.schemas);
    const mapping = !list && isObject(field.schemas) && !field.schemas.some((each) => each.type === "string");
    return {
      label: name, type: "property", boost: field.required ? 1 : 0, detail: field.required ? "required" : undefined,
      apply: list || mapping ? `${name}:` : `${name}: `,
      info: () => explanation(name, field),
    };
  });
}

function completions(readSchema) {
  return async (context) => {
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    const lines = linesOf(context.state);
    const place = line.number - 1;
    const schema = await readSchema();
    const value = /^ *(?:- +)*(["']?)([^\s#:"'-][^:#]*?)\1 *: +(?:(\[)(?:[^\]]*,)? *)?([^\s,\[\]{}|>'"][^,\[\]{}]*)?$/.exec(before);
    if (value) {
      const { root, nodes } = outline(lines);
      const node = nodes[place]?.at(-1);
      if (!node || node.index !== undefined) return null;
      const typed = value[4] ?? "";
      const found = schemasOf(schema, node);
      const options = await valuesOf(root, node, node.name, value[3] ? itemsOf(found) : found, typed);
      return options.length ? { from: context.pos - typed.length, options, validFor: /^[^\n,\]]*$/ } : null;
    }
    const key = /^ *(?:- +)*([\w-]*)$/.exec(before);
    if (!key || (!key[1] && !context.explicit && !/- +$/.test(before)) || line.text.slice(before.length).trim()) return null;
    const column = before.length - key[1].length;
    const { root, nodes, partial } = outline(lines, { line: place, column });
    if (!partial || nodes[place] === null) return null;
    const container = partial.parent;
    const found = schemasOf(schema, container);
    const ofItem = container.index === undefined ? [] : await valuesOf(root, container, container.parent.name, found, key[1]);
    const all = [...options(fieldsOf(schema, container), container), ...ofItem];
    return all.length ? { from: context.pos - key[1].length, options: all, validFor: /^[\w-]*$/ } : null;
  };
}

function explanations(readSchema) {
  return hoverTooltip(async (view, pos) => {
    const schema = await readSchema();
    const line = view.state.doc.lineAt(pos);
    const { nodes } = outline(linesOf(view.state));
    const node = nodes[line.number - 1]?.at(-1);
    if (!node || node.index !== undefined) return null;
    const from = line.from + node.column;
    const to = from + node.name.length;
    const field = pos >= from && pos <= to ? fieldsOf(schema, node.parent).get(node.name) : null;
    if (!field) return null;
    return { pos: from, end: to, above: true, create: () => ({ dom: explanation(node.name, field) }) };
  });
}

// `readSchema` returns a promise of the schema.
export function helpFrom(readSchema) {
  return [autocompletion({ override: [completions(readSchema)], icons: false }), explanations(readSchema)];
}
