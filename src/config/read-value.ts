/** Reads the value of a setting within the limits of its row. Pure. */
import type { Field } from "./field.ts";
import { type Kind, kinds, type Reading } from "./kinds.ts";

/** Reads a flag's value or a default. */
export function readText(field: Pick<Field, "kind"> & Limits, text: string): Reading<unknown> {
  return limited(field, kinds[field.kind].fromText(text));
}

/**
 * Reads a value from the file. Returns undefined if the default applies. It applies if the value is null. Without
 * `keepsZero`, it also applies if the value is empty or zero.
 */
export function readFileValue(field: Field, value: unknown): Reading<unknown> | undefined {
  if (value === undefined || value === null) return undefined;
  if (value === "" && field.keepsZero !== true) return undefined;
  const reading = readKind(kinds[field.kind], value);
  const isZero = "value" in reading && reading.value === 0;
  return isZero && field.keepsZero !== true ? undefined : limited(field, reading);
}

function readKind(reader: Omit<Kind<unknown>, "write">, value: unknown): Reading<unknown> {
  if (reader.fromFile !== undefined) return reader.fromFile(value);
  if (typeof value === "string") return reader.fromText(value);
  return { reason: reader.stringReason ?? "must be a string" };
}

type Limits = Pick<Field, "isPositive" | "min" | "max" | "words" | "pattern" | "mustBe">;

/** Checks the row's limits. */
function limited(limits: Limits, reading: Reading<unknown>): Reading<unknown> {
  if ("reason" in reading) return reading;
  const { value } = reading;
  const { words, min, max } = limits;
  if (typeof value === "string" && words !== undefined && !words.includes(value)) {
    return { reason: `must be one of ${words.join(", ")}` };
  }
  if (typeof value === "string" && !new RegExp(limits.pattern ?? "").test(value)) {
    return { reason: `must be ${limits.mustBe}` };
  }
  if (typeof value !== "number") return reading;
  if (limits.isPositive === true && value <= 0) return { reason: "must be greater than zero" };
  if (max !== undefined && (value > max || value < (min ?? -max))) {
    return { reason: `must be from ${min} to ${max}` };
  }
  if (min !== undefined && value < min) return { reason: `must be at least ${min}` };
  return reading;
}
