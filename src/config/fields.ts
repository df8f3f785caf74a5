import type { Field, FieldGroup, FieldValues, FlagOnlyOption } from "./field.ts";
import { ignoredFields } from "./fields/ignored-fields.ts";
import { iptablesFields } from "./fields/iptables-fields.ts";
import { ipvsFields } from "./fields/ipvs-fields.ts";
import { loggingFields } from "./fields/logging-fields.ts";
import { nodeFields } from "./fields/node-fields.ts";
import { ownFields } from "./fields/own-fields.ts";
import { conntrackFields, processFields } from "./fields/process-fields.ts";
import { serverFields } from "./fields/server-fields.ts";

/** Every setting, in the order of --help. */
export const fieldGroups: readonly FieldGroup[] = [
  { title: "Node and cluster", fields: nodeFields },
  { title: "IPVS", fields: ipvsFields },
  { title: "iptables", fields: iptablesFields },
  { title: "Servers", fields: serverFields },
  { title: "Connection tracking", fields: conntrackFields },
  { title: "Process", fields: processFields },
  { title: "Logging", fields: loggingFields.map(winning) },
  { title: "Options specific to kube-ipvs", fields: ownFields.map(withFlag).map(winning) },
  { title: "Ignored for compatibility", fields: ignoredFields },
];

function winning(field: Field): Field {
  return { ...field, winsOverFile: true };
}

/** With the flag of its name, unless it has another one. */
function withFlag(field: Field): Field {
  const name = field.path.replace("kubeIpvs.", "");
  const flag = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return { flag: `kube-ipvs-${flag}`, ...field };
}

/** Decides on the defaults of other fields. */
export const profileField: Field = winning(withFlag(ownFields[0]));

export const allFields: readonly Field[] = fieldGroups.flatMap(({ fields }) => fields);

type ReadField =
  | (typeof nodeFields)[number]
  | (typeof ipvsFields)[number]
  | (typeof iptablesFields)[number]
  | (typeof serverFields)[number]
  | (typeof conntrackFields)[number]
  | (typeof processFields)[number]
  | (typeof loggingFields)[number]
  | (typeof ownFields)[number];

/** The value of each setting that has an effect, by its path in the file. */
export type Settings = { readonly [F in ReadField as F["path"]]: SettingOf<F> };

/** One of its words, where the row has a choice of them. */
type SettingOf<F extends ReadField> = F extends { readonly words: readonly (infer Word)[] }
  ? Word
  : FieldValues[F["kind"]];

/** Flags that stand for no field of the file. */
export const flagOnlyOptions: readonly FlagOnlyOption[] = [
  { flag: "config", kind: "text", help: "path of a KubeProxyConfiguration file (v1alpha1)" },
  { flag: "master", kind: "text", help: "URL of the API server, instead of the kubeconfig's" },
  {
    flag: "cleanup",
    kind: "boolean",
    help: "remove all kernel state of kube-ipvs and exit",
  },
  {
    flag: "init-only",
    kind: "boolean",
    help: "load modules, set sysctls and exit; for a privileged init container",
  },
  {
    flag: "write-config-to",
    kind: "text",
    help: "write the effective configuration to this file and exit",
  },
  {
    flag: "kube-ipvs-force-cleanup",
    kind: "boolean",
    help: "let --cleanup run beside a running kube-ipvs, which writes everything again",
  },
  {
    flag: "strict",
    kind: "boolean",
    help: "reject a configuration with unknown fields or feature gates, or settings without effect",
  },
  {
    flag: "healthz-port",
    kind: "integer",
    min: 0,
    max: 65_535,
    help: "port for --healthz-bind-address; 0 disables the health server (deprecated)",
    insteadOf: "--healthz-bind-address",
  },
  {
    flag: "metrics-port",
    kind: "integer",
    min: 0,
    max: 65_535,
    help: "port for --metrics-bind-address (deprecated)",
    insteadOf: "--metrics-bind-address",
  },
  ...["boot-id-file", "machine-id-file", "vmodule"].map(
    (flag): FlagOnlyOption => ({ flag, kind: "text", help: "", noEffect: "not used" }),
  ),
];
