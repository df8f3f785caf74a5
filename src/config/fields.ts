import type { Field, FieldGroup, FieldValues } from "./field.ts";
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
  { title: "Node and cluster", fields: nodeFields },
  { title: "IPVS", fields: ipvsFields },
  { title: "iptables", fields: iptablesFields },
  { title: "Servers", fields: serverFields },
  { title: "Connection tracking", fields: conntrackFields },
  { title: "Process", fields: processFields },
  { title: "Logging", fields: loggingFields.map(winning) },
  { title: "Options specific to kube-ipvs", fields: [...ownFields, ...userspaceFields].map(own) },
  { title: "Ignored for compatibility", fields: ignoredFields },
];

function winning(field: Field): Field {
  return { ...field, winsOverFile: true };
}

/**
 * Derives the flag from the path, unless the row has a flag. Zero is valid unless the row has a minimum or isPositive.
 */
function own(field: Field): Field {
  const { kind, isPositive, min } = field;
  const name = field.path.replace("kubeIpvs.", "");
  const flag = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const isZeroValid =
    (kind === "integer" || kind === "duration") && isPositive !== true && min === undefined;
  return winning({
    flag: `kube-ipvs-${flag}`,
    ...(isZeroValid ? { keepsZero: true, min: 0 } : {}),
    ...field,
  });
}

/** The profile setting, which determines other settings' defaults. */
export const profileField: Field = own(ownFields[0]);

/** Flags without a configuration file field. */
export const flagOnlyFields: readonly Field[] = startFields.map((row: Field): Field => {
  const field = { ...row, flag: row.path.slice("--".length) };
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
  ? `${Name}${F["kind"] extends "duration" ? "Ms" : ""}`
  : never;

export function ownSettings(settings: Settings): OwnSettings {
  const named = [...ownFields, ...userspaceFields].map(({ path, kind }) => {
    const unit = kind === "duration" ? "Ms" : "";
    return [`${path.replace("kubeIpvs.", "")}${unit}`, settings[path]] as const;
  });
  return Object.fromEntries(named) as unknown as OwnSettings;
}

/** The type of a setting's value: one of the row's `words`, if the row has any. */
type SettingOf<F extends ReadField> = F extends { readonly words: readonly (infer Word)[] }
  ? Word
  : FieldValues[F["kind"]];
