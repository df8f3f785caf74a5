import { fieldOf, type Untrusted } from "./fields.ts";

type Labels = Readonly<Record<string, string>>;

/** Longest valid key: 253 characters, a slash and 63 more. Values have at most 63. */
const longestText = 317;

/** Reads a map of short strings, and interns them. Other entries are skipped and not reported. */
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

/** Reads a string such as a UID or a version, and interns it. Empty if the value is not a short string. */
export function plainTextIn(given: Untrusted, name: string): string {
  const value = given.valueAt(name);
  return typeof value === "string" && value.length <= longestText ? given.intern(value) : "";
}
