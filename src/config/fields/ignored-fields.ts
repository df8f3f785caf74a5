import type { Field } from "../field.ts";

const otherMode = "applies to other proxy modes only";
const windows = "applies to Windows only";
const transport = "kube-ipvs uses JSON and sends few requests";

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
    path: "clientConnection.qps",
    kind: "float",
    default: "5",
    flag: "kube-api-qps",
    help: "API requests per second",
    noEffect: transport,
  },
  {
    path: "clientConnection.burst",
    kind: "integer",
    default: "10",
    min: 0,
    flag: "kube-api-burst",
    help: "burst of API requests",
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
  {
    path: "nftables.masqueradeAll",
    kind: "boolean",
    default: "false",
    help: "",
    noEffect: otherMode,
  },
  {
    path: "nftables.syncPeriod",
    kind: "duration",
    default: "30s",
    help: "",
    noEffect: otherMode,
  },
  {
    path: "nftables.minSyncPeriod",
    kind: "duration",
    default: "1s",
    help: "",
    noEffect: otherMode,
  },
  { path: "winkernel.networkName", kind: "text", default: "", help: "", noEffect: windows },
  { path: "winkernel.sourceVip", kind: "text", default: "", help: "", noEffect: windows },
  { path: "winkernel.enableDSR", kind: "boolean", default: "false", help: "", noEffect: windows },
  { path: "winkernel.rootHnsEndpointName", kind: "text", default: "", help: "", noEffect: windows },
  {
    path: "winkernel.forwardHealthCheckVip",
    kind: "boolean",
    default: "false",
    help: "",
    noEffect: windows,
  },
  { path: "windowsRunAsService", kind: "boolean", default: "false", help: "", noEffect: windows },
  {
    path: "portRange",
    kind: "text",
    default: "",
    flag: "proxy-port-range",
    help: "ports for the removed userspace mode",
    noEffect: "the userspace mode was removed",
  },
];
