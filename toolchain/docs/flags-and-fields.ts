/** What the table of settings says about kube-proxy's flags, fields and feature gates. */
import { featureGates } from "../../src/config/feature-gates.ts";
import { allFields, flagOnlyOptions } from "../../src/config/fields.ts";
import type { CompatibilityRow, CompatibilitySection } from "./compatibility.ts";

type Status = Omit<CompatibilityRow, "name">;

function statusOf({ noEffect, differs }: Status): Status {
  return {
    ...(noEffect === undefined ? {} : { noEffect }),
    ...(differs === undefined ? {} : { differs }),
  };
}

const isOwn = (name: string): boolean => name.startsWith("kubeIpvs");

/** Flags that the command line reads before all settings. */
const otherFlags: readonly CompatibilityRow[] = [
  { name: "--help" },
  { name: "--version", differs: "prints the version of kube-ipvs after that of kube-proxy" },
];

const flags: readonly CompatibilityRow[] = [
  ...otherFlags,
  ...flagOnlyOptions
    .filter((flag) => flag.isOwn !== true)
    .map((flag) => ({ name: `--${flag.flag}`, ...statusOf(flag) })),
  ...allFields.flatMap((field) =>
    field.flag === undefined || isOwn(field.path)
      ? []
      : [{ name: `--${field.flag}`, ...statusOf(field) }],
  ),
].toSorted(byName);

const fields: readonly CompatibilityRow[] = allFields
  .filter(({ path }) => !isOwn(path))
  .map((field) => ({ name: field.path, ...statusOf(field) }))
  .toSorted(byName);

const gates: readonly CompatibilityRow[] = featureGates
  .map((gate) => ({ name: gate.name, ...statusOf(gate) }))
  .toSorted(byName);

/** Sections of the compatibility table. */
export const flagsAndFields: readonly CompatibilitySection[] = [
  {
    title: "Flags",
    head: "Flag",
    text: "Flags for Windows are a usage error, as they are on Linux for kube-proxy.",
    rows: flags,
  },
  { title: "Fields of KubeProxyConfiguration v1alpha1", head: "Field", rows: fields },
  {
    title: "Feature gates",
    head: "Gate",
    text: "All other gates are ignored with one warning. With `--strict` they are an error.",
    rows: gates,
  },
];

function byName(one: CompatibilityRow, other: CompatibilityRow): number {
  return one.name < other.name ? -1 : Number(one.name > other.name);
}
