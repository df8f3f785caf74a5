import type { ProxyMode } from "./config.ts";
import type { Field, FieldGroup, FieldRow, FieldValues } from "./field.ts";
import { ignoredFields } from "./fields/ignored-fields.ts";
import { iptablesFields } from "./fields/iptables-fields.ts";
import { ipvsFields } from "./fields/ipvs-fields.ts";
import { loggingFields } from "./fields/logging-fields.ts";
import { nodeFields } from "./fields/node-fields.ts";
import { ownFields } from "./fields/own-fields.ts";
import { conntrackFields, processFields } from "./fields/process-fields.ts";
import { serverFields } from "./fields/server-fields.ts";
import { startFields } from "./fields/start-fields.ts";
import { userspaceFields } from "./fields/userspace-fields.ts";

/** Every setting, in the order of --help. */
export const fieldGroups: readonly FieldGroup[] = [
  { title: "Node and cluster", fields: nodeFields.map(complete) },
  { title: "IPVS", fields: ipvsFields.map((row) => complete(onlyIn("ipvs", row))) },
  { title: "iptables", fields: iptablesFields.map((row) => complete(onlyIn("iptables", row))) },
  { title: "Servers", fields: serverFields.map(complete) },
  {
    title: "Connection tracking",
    fields: conntrackFields.map((row) => complete({ ...row, isLive: true })),
  },
  { title: "Process", fields: processFields.map(complete) },
  { title: "Logging", fields: loggingFields.map((row) => winning(complete(row))) },
  { title: "Options specific to kube-ipvs", fields: [...ownFields, ...userspaceFields].map(own) },
  { title: "Ignored for compatibility", fields: ignoredFields },
];

/**
 * Fills in the columns that a row omits. The kind is text, the default is false or empty, and the path is the flag's
 * name.
 */
function complete(row: FieldRow): Field {
  const name = row.path.replace("kubeIpvs.", "kube-ipvs.");
  const flag = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return {
    kind: "text",
    default: row.kind === "boolean" ? "false" : "",
    flag: flag.replaceAll(".", "-"),
    ...row,
  };
}

/** The settings in a mode's own section apply only in that mode, and without a restart. */
function onlyIn(mode: ProxyMode, row: FieldRow): FieldRow {
  return row.path.startsWith(`${mode}.`) ? { ...row, isLive: true, onlyInMode: mode } : row;
}

function winning(field: Field): Field {
  return { ...field, winsOverFile: true };
}

/** Zero is valid unless the row has a minimum or isPositive. */
function own(row: FieldRow): Field {
  const { kind, isPositive, min } = row;
  const isZeroValid =
    (kind === "integer" || kind === "duration") && isPositive !== true && min === undefined;
  return winning(complete({ ...(isZeroValid ? { keepsZero: true, min: 0 } : {}), ...row }));
}

/** The profile setting, which determines other settings' defaults. */
export const profileField: Field = own(ownFields[0]);

/** Flags without a configuration file field. */
export const flagOnlyFields: readonly Field[] = startFields.map((row: FieldRow): Field => {
  const field = complete({ ...row, flag: row.path.slice("--".length) });
  return row.insteadOf === undefined ? winning(field) : field;
});

/** Every setting with a configuration file field. */
export const allFields: readonly Field[] = fieldGroups.flatMap(({ fields }) => fields);

type ReadField =
  | (typeof startFields)[number]
  | (typeof nodeFields)[number]
  | (typeof ipvsFields)[number]
  | (typeof iptablesFields)[number]
  | (typeof serverFields)[number]
  | (typeof conntrackFields)[number]
  | (typeof processFields)[number]
  | (typeof loggingFields)[number]
  | (typeof ownFields)[number]
  | (typeof userspaceFields)[number];

/** The value of each setting that has an effect, by its path. */
export type Settings = { readonly [F in ReadField as F["path"]]: SettingOf<F> };

type OwnField = (typeof ownFields)[number] | (typeof userspaceFields)[number];

/** The settings under `kubeIpvs` by name, without their section. Durations are in milliseconds: `stopDelayMs`. */
export type OwnSettings = { readonly [F in OwnField as OwnName<F>]: SettingOf<F> };

type OwnName<F extends OwnField> = F["path"] extends `kubeIpvs.${infer Name}`
  ? `${Name}${F extends { readonly kind: "duration" } ? "Ms" : ""}`
  : never;

export function ownSettings(settings: Settings): OwnSettings {
  const named = [...ownFields, ...userspaceFields].map((row) => {
    const unit = "kind" in row && row.kind === "duration" ? "Ms" : "";
    return [`${row.path.replace("kubeIpvs.", "")}${unit}`, settings[row.path]] as const;
  });
  return Object.fromEntries(named) as unknown as OwnSettings;
}

/** The type of a setting's value: one of the row's `words`, if the row has any. */
type SettingOf<F extends ReadField> = F extends { readonly words: readonly (infer Word)[] }
  ? Word
  : F extends { readonly kind: infer Kind extends keyof FieldValues }
    ? FieldValues[Kind]
    : string;
