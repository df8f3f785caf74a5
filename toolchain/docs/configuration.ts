/** docs/configuration.md: every setting, from the table that the parser reads. */
import type { Field, FieldKind } from "../../src/config/field.ts";
import { fieldGroups, looseFlags } from "../../src/config/fields.ts";
import { code, documentOf, table } from "./markdown.ts";

const kindWords: Readonly<Record<FieldKind, string>> = {
  text: "text",
  boolean: "true or false",
  integer: "whole number",
  float: "number",
  duration: "duration",
  "duration-or-nanoseconds": "duration, or nanoseconds",
  ip: "IP address",
  listen: "IP:port",
  texts: "list",
  "comma-list": "list in one text",
  cidrs: "list of networks",
  gates: "map of true or false",
  vmodule: "list of filePattern, verbosity",
  quantity: "amount",
};

const introduction: readonly string[] = [
  "# Configuration",
  "",
  "Written by `make docs` from the table that the program reads its settings with.",
  "",
  "kube-ipvs takes the configuration file and the flags of kube-proxy: a KubeProxyConfiguration",
  "(`kubeproxy.config.k8s.io/v1alpha1`, YAML or JSON) named by `--config`, or flags alone. Settings of its own stand",
  "under the key `kubeIpvs` of the same file, which kube-proxy skips with a line in its log.",
  "",
  "- **Which counts.** Without `--config`: the flag, else the default. With it: the file, else the default. Flags marked",
  "  with * win over the file. Any other flag beside a file is ignored, with a warning.",
  "- **Zero** in the file (0, empty text, null, `0s`) means the default, unless the row says that zero is a value.",
  "- **Durations** are written as in Go: `1h15m`, `30s`, `500ms`. Lists are lists in the file, and separated by commas",
  "  in a flag; a flag for a list may be given several times.",
  "- **Mistakes** are reported all together, each with path, value and reason, and the program ends with 1. Fields that",
  "  nobody knows, and fields given twice, are only warned about, by path. `--write-config-to` shows what was understood.",
  "- **Underscores** in the names of flags stand for hyphens.",
  "- **A changed file** ends the program with 1 when the file is written or renamed, as with kube-proxy; replaced by a",
  "  new one (as a ConfigMap volume does it), it is not noticed. With `kubeIpvs.configReload` it is read again in all",
  "  these cases, rows marked «live» apply at once, and the log names those that need a restart.",
];

/** The whole document. */
export function configurationDocument(): string {
  const loose = looseFlags
    .filter(({ help }) => help !== "")
    .map(({ flag, kind, help }) => [code(`--${flag}`), kindWords[kind], help]);
  return documentOf([
    introduction,
    ["## Flags without a field"],
    table(["Flag", "Kind", "Meaning"], loose),
    ...fieldGroups.flatMap(({ title, fields }) => [[`## ${title}`], fieldTable(fields)]),
  ]);
}

function fieldTable(fields: readonly Field[]): readonly string[] {
  const rows = fields.map((field) => [
    code(field.path),
    flagText(field),
    kindWords[field.kind],
    defaultText(field),
    field.isLive === true ? "live" : "",
    meaning(field),
  ]);
  return table(["Field", "Flag", "Kind", "Default", "Change", "Meaning"], rows);
}

function flagText({ flag, flagAlias, winsOverFile }: Field): string {
  if (flag === undefined) return "";
  const names = [flag, ...(flagAlias === undefined ? [] : [flagAlias])];
  return names.map((name) => code(`--${name}`)).join(", ") + (winsOverFile === true ? " *" : "");
}

function defaultText({ default: value, defaultWithoutFile }: Field): string {
  if (defaultWithoutFile === undefined) return code(value);
  return `${code(value)}; without a file ${code(defaultWithoutFile)}`;
}

function meaning({ help, keepsZero, noEffect, words, ...limits }: Field): string {
  const facts = [
    help,
    ...(words === undefined ? [] : [`one of ${words.map(code).join(", ")}`]),
    ...rangeText(limits),
    ...(keepsZero === true ? ["zero is a value"] : []),
    ...(noEffect === undefined ? [] : [`**no effect**: ${noEffect}`]),
  ];
  return facts.filter((fact) => fact !== "").join("; ");
}

function rangeText({
  min,
  max,
  isPositive,
}: Pick<Field, "min" | "max" | "isPositive">): readonly string[] {
  if (isPositive === true) return ["more than zero"];
  if (max !== undefined) return [`from ${min ?? -max} to ${max}`];
  return [];
}
