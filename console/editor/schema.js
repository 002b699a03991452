// Fields and values that the JSON Schema of manifests allows at a node of the outline.
import { scalar } from "./outline.js";

const isReference = (schema) => schema.type === "string" && (schema.pattern ?? "").startsWith("\\$\\{vars");

// Returns the plain schemas of which a schema is made, for a node whose tags decide between those that it has.
function parts(schema, node) {
  if (!schema || schema === true || isReference(schema)) return [];
  const chosen = (schema.allOf ?? []).filter((each) => !each.if || meets(each.if, node)).map((each) => each.then ?? each);
  return [schema, ...[...(schema.anyOf ?? []), ...chosen].flatMap((each) => parts(each, node))];
}

function meets(condition, node) {
  return Object.entries(condition.properties ?? {}).every(([name, { const: word }]) => {
    const given = node?.children.get(name);
    return given ? scalar(given) === word : !(condition.required ?? []).includes(name);
  });
}

export function schemasOf(root, node) {
  if (!node.parent) return parts(root, node);
  const above = schemasOf(root, node.parent);
  const inner = node.index === undefined
    ? above.flatMap((each) => [each.properties?.[node.name] ?? (typeof each.additionalProperties === "object" ? each.additionalProperties : true)])
    : above.map((each) => each.items ?? true);
  return inner.flatMap((each) => parts(each, node));
}

// Returns the fields that a node may have, each with the schemas of its value.
export function fieldsOf(root, node) {
  const found = new Map();
  for (const schema of schemasOf(root, node)) {
    for (const [name, field] of Object.entries(schema.properties ?? {})) {
      const all = parts(field, { children: new Map() });
      const before = found.get(name);
      found.set(name, {
        schemas: [...(before?.schemas ?? []), ...all], required: before?.required || (schema.required ?? []).includes(name),
      });
    }
  }
  return found;
}

export const itemsOf = (schemas) => schemas.flatMap((each) => (each.items ? parts(each.items, null) : []));

export function wordsOf(schemas) {
  const words = schemas.flatMap((each) => [
    ...(each.const === undefined ? [] : [each.const]), ...(each.enum ?? []),
    ...([each.type].flat().includes("boolean") ? [true, false] : []),
  ]).filter((word) => word !== null);
  return [...new Set(words)].map(String);
}

const hasType = (schemas, type) => schemas.some((each) => [each.type].flat().includes(type));
export const isObject = (schemas) => hasType(schemas, "object");
export const isList = (schemas) => hasType(schemas, "array");

function form(schemas) {
  const words = wordsOf(schemas);
  if (words.length) return words.length > 8 ? `one of ${words.length} words` : words.join(" or ");
  const types = [...new Set(schemas.flatMap((each) => each.type ?? []))].filter((type) => type !== "null");
  const bounded = schemas.find((each) => each.minimum !== undefined);
  if (bounded) return `${types[0]}, ${bounded.minimum} to ${bounded.maximum}`;
  const rule = schemas.find((each) => each.patternErrorMessage)?.patternErrorMessage.replace(/^must be /, "");
  const names = { string: "text", array: "list" };
  return [types.map((type) => names[type] ?? type).join(" or ") || "any value", rule].filter(Boolean).join(": ");
}

// Returns an element that explains a field.
export function explanation(name, { schemas, required }) {
  const box = document.createElement("div");
  box.className = "explained";
  const add = (tag, text) => { box.append(Object.assign(document.createElement(tag), { textContent: text })); };
  add("strong", name);
  add("span", ` ${form(schemas)}${required ? ", required" : ""}`);
  const about = schemas.find((each) => each.description)?.description;
  if (about) add("p", about);
  const preset = schemas.find((each) => each.default !== undefined && each.default !== null)?.default;
  if (preset !== undefined) add("p", `Default: ${JSON.stringify(preset)}`);
  const [example] = schemas.find((each) => each.examples)?.examples ?? [];
  if (example !== undefined) add("p", `Example: ${JSON.stringify(example)}`);
  return box;
}
