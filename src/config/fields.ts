import type { Field, FieldGroup, FieldValues, LooseFlag } from "./field.ts";
import { idleFields } from "./fields/idle-fields.ts";
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
  { title: "Servers", fields: serverFields },
  { title: "Connection tracking", fields: conntrackFields },
  { title: "Process", fields: processFields },
  { title: "Logging", fields: loggingFields },
  { title: "Settings of kube-ipvs itself", fields: ownFields },
  { title: "Accepted without effect", fields: idleFields },
];

export const allFields: readonly Field[] = fieldGroups.flatMap(({ fields }) => fields);

type ReadField =
  | (typeof nodeFields)[number]
  | (typeof ipvsFields)[number]
  | (typeof serverFields)[number]
  | (typeof conntrackFields)[number]
  | (typeof processFields)[number]
  | (typeof loggingFields)[number]
  | (typeof ownFields)[number];

/** The value of each setting that has an effect, by its path in the file. */
export type Settings = { readonly [F in ReadField as F["path"]]: FieldValues[F["kind"]] };

/** Flags that stand for no field of the file. */
export const looseFlags: readonly LooseFlag[] = [
  { flag: "config", kind: "text", help: "path of a KubeProxyConfiguration file (v1alpha1)" },
  { flag: "master", kind: "text", help: "URL of the API server, instead of the kubeconfig's" },
  {
    flag: "cleanup",
    kind: "boolean",
    help: "remove everything of kube-ipvs from the kernel and exit",
    differs:
      "removes what is ours and kube-proxy's in mode ipvs, not the virtual servers of others nor those in excludeCIDRs, and nothing of mode nftables",
  },
  {
    flag: "init-only",
    kind: "boolean",
    help: "load modules, set sysctls and exit; for an init container with more rights",
    differs: "loads modules too, and needs no API server and no Node object",
  },
  {
    flag: "write-config-to",
    kind: "text",
    help: "write the resulting configuration to this file and exit",
  },
  {
    flag: "healthz-port",
    kind: "integer",
    min: 0,
    max: 65_535,
    help: "port for --healthz-bind-address; 0: no health server (deprecated)",
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
  ...["boot-id-file", "machine-id-file"].map(
    (flag): LooseFlag => ({ flag, kind: "text", help: "", noEffect: "nothing reads it" }),
  ),
];
