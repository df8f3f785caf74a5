/** The tables of docs/configuration.md: every setting, from the table that the parser reads. */
import type { Field, FieldKind } from "../../src/config/field.ts";
import { fieldGroups, flagOnlyFields } from "../../src/config/fields.ts";
import { kinds } from "../../src/config/kinds.ts";
import { code, table, withTables } from "./markdown.ts";

export function configurationDocument(): string {
  const flagOnly = flagOnlyFields
    .filter(({ help }) => help !== "")
    .map(({ path, kind, help }) => [code(path), kinds[kind].type, help]);
  return withTables("docs/configuration.md", {
    "Flags without a field": table(["Flag", "Type", "Meaning"], flagOnly),
    ...Object.fromEntries(fieldGroups.map(({ title, fields }) => [title, fieldTable(fields)])),
  });
}

function fieldTable(fields: readonly Field[]): readonly string[] {
  const rows = fields.map((field) => [
    code(field.path),
    flagText(field),
    kinds[field.kind].type,
    defaultText(field),
    field.isLive === true ? "live" : "",
    meaning(field),
  ]);
  return table(["Field", "Flag", "Type", "Default", "Reload", "Meaning"], rows);
}

function flagText({ flag, flagAlias, winsOverFile }: Field): string {
  if (flag === undefined) return "";
  const names = [flag, ...(flagAlias === undefined ? [] : [flagAlias])];
  return names.map((name) => code(`--${name}`)).join(", ") + (winsOverFile === true ? " *" : "");
}

function defaultText({ default: value, kubeProxyDefault, defaultWithoutFile }: Field): string {
  return [
    code(value),
    ...(defaultWithoutFile === undefined ? [] : [`without a file ${code(defaultWithoutFile)}`]),
    ...(kubeProxyDefault === undefined
      ? []
      : [`with profile kube-proxy ${code(kubeProxyDefault)}`]),
  ].join("; ");
}

/** How a kind's zero value is called if it is not a number. */
const emptyValue: Partial<Record<FieldKind, string>> = {
  boolean: code("false"),
  text: "an empty value",
};

function meaning({ help, kind, keepsZero, noEffect, words, ...limits }: Field): string {
  const facts = [
    noEffect === undefined ? help : `**no effect**: ${noEffect}`,
    ...(words === undefined ? [] : [`one of ${words.map(code).join(", ")}`]),
    ...rangeText(limits),
    ...(keepsZero === true ? [`${emptyValue[kind] ?? "zero"} is valid`] : []),
  ];
  return facts.filter((fact) => fact !== "").join("; ");
}

function rangeText({
  min,
  max,
  isPositive,
}: Pick<Field, "min" | "max" | "isPositive">): readonly string[] {
  if (isPositive === true) return ["greater than zero"];
  if (max !== undefined) return [`from ${min ?? -max} to ${max}`];
  return [];
}
