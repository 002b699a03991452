// The parts of the editor that load when a person turns to it: completion, explanations and search.
import { searchKeymap } from "@codemirror/search";
import { keymap } from "@codemirror/view";
import { helpFrom } from "./help.js";

export const laterParts = (readSchema) => [helpFrom(readSchema), keymap.of(searchKeymap)];
