import { yamlText } from "./yaml.ts";

/** A value in the form asked for: JSON or YAML as kubectl prints them, ending with a line end, else what people read. */
export function answerText(
  format: string | undefined,
  value: unknown,
  forPeople: () => string,
): string {
  if (format === "json") return `${JSON.stringify(value, undefined, 2)}\n`;
  return format === "yaml" ? yamlText(value) : forPeople();
}
