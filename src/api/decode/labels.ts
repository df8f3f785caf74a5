import { fieldOf, type Untrusted } from "./fields.ts";

type Labels = Readonly<Record<string, string>>;

/** An API server admits 253 characters, a slash and 63 more for a key, and 63 for a value. */
const longestText = 317;

/** A map of short strings for comparing, pooled; what is no such string is left out. */
export function labelsOf(given: Untrusted): Labels {
  const { value } = given;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return {};
  const labels: Record<string, string> = Object.create(null);
  for (const name of Object.keys(value)) {
    const text = fieldOf(value, name);
    if (typeof text !== "string" || text.length > longestText || name.length > longestText)
      continue;
    labels[given.intern(name)] = given.intern(text);
  }
  return { ...labels };
}

/** A string that is kept as it is: a UID, a version; pooled, empty when it is none. */
export function plainTextIn(given: Untrusted, name: string): string {
  const value = given.valueAt(name);
  return typeof value === "string" && value.length <= longestText ? given.intern(value) : "";
}
