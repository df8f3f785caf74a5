import type { DecodeScope } from "./fields.ts";
import { fieldOf } from "./fields.ts";

type Labels = Readonly<Record<string, string>>;

/** An API server admits 253 characters, a slash and 63 more for a key, and 63 for a value. */
const longestText = 317;

/** A map of short strings for comparing, pooled; what is no such string is left out. */
export function labelsOf(scope: DecodeScope, value: unknown): Labels {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return {};
  const labels: Record<string, string> = Object.create(null);
  for (const name of Object.keys(value)) {
    const text = fieldOf(value, name);
    if (typeof text !== "string" || text.length > longestText || name.length > longestText)
      continue;
    labels[scope.texts.intern(name)] = scope.texts.intern(text);
  }
  return { ...labels };
}

/** A string that is kept as it is: a UID, a version; pooled, empty when it is none. */
export function plainTextOf(scope: DecodeScope, value: unknown): string {
  return typeof value === "string" && value.length <= longestText ? scope.texts.intern(value) : "";
}
