import { yamlText } from "./yaml.ts";

/** A value in the form asked for, as kubectl prints it; ends with a line end. */
export function structuredText(format: "json" | "yaml", value: unknown): string {
  return format === "json" ? `${JSON.stringify(value, undefined, 2)}\n` : yamlText(value);
}
