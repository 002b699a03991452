// YAML in the colours of the console, which follow its theme.
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { yaml } from "@codemirror/lang-yaml";
import { tags } from "@lezer/highlight";

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string), tags.content], color: "var(--good)" },
  { tag: [tags.keyword, tags.labelName, tags.typeName, tags.meta], color: "var(--warn)" },
  { tag: [tags.lineComment, tags.comment], color: "var(--soft)", fontStyle: "italic" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

export const manifestLanguage = [yaml(), syntaxHighlighting(colours)];
