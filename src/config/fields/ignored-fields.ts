import type { Field } from "../field.ts";

const otherMode = "applies to other proxy modes only";
const windows = "applies to Windows only";
const transport = "kube-ipvs uses JSON";

/** Path, kind, default, and why it has no effect. */
const withoutFlag = [
  ["nftables.masqueradeAll", "boolean", "false", otherMode],
  ["nftables.syncPeriod", "duration", "30s", otherMode],
  ["nftables.minSyncPeriod", "duration", "1s", otherMode],
  ["winkernel.networkName", "text", "", windows],
  ["winkernel.sourceVip", "text", "", windows],
  ["winkernel.enableDSR", "boolean", "false", windows],
  ["winkernel.rootHnsEndpointName", "text", "", windows],
  ["winkernel.forwardHealthCheckVip", "boolean", "false", windows],
  ["windowsRunAsService", "boolean", "false", windows],
] as const;

/** Known to kube-proxy, accepted, without effect here. */
export const ignoredFields: readonly Field[] = [
  {
    path: "clientConnection.acceptContentTypes",
    kind: "text",
    default: "",
    help: "",
    noEffect: transport,
  },
  {
    path: "clientConnection.contentType",
    kind: "text",
    default: "application/vnd.kubernetes.protobuf",
    flag: "kube-api-content-type",
    help: "content type of API requests",
    noEffect: transport,
  },
  {
    path: "configSyncPeriod",
    kind: "duration",
    default: "15m",
    isPositive: true,
    flag: "config-sync-period",
    help: "resync period of API objects",
    noEffect: "watched objects are not resynced",
  },
  {
    path: "nftables.masqueradeBit",
    kind: "integer",
    default: "14",
    keepsZero: true,
    help: "",
    noEffect: otherMode,
  },
  ...withoutFlag.map(
    ([path, kind, value, noEffect]): Field => ({ path, kind, default: value, help: "", noEffect }),
  ),
  {
    path: "portRange",
    kind: "port-range",
    default: "",
    flag: "proxy-port-range",
    help: "port range for kube-proxy's former userspace mode",
    noEffect: "kube-ipvs chooses free ports for its userspace mode",
  },
];
