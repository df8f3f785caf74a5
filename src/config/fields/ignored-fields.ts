import type { Field, FieldKind } from "../field.ts";

const otherMode = "applies to other proxy modes only";
const windows = "applies to Windows only";
const transport = "kube-ipvs uses JSON";
const unbuffered = "log lines are not buffered";

type Row = readonly [path: string, kind: FieldKind, value: string, noEffect: string, flag?: string];

const rows: readonly Row[] = [
  ["clientConnection.acceptContentTypes", "text", "", transport],
  [
    "clientConnection.contentType",
    "text",
    "application/vnd.kubernetes.protobuf",
    transport,
    "kube-api-content-type",
  ],
  [
    "configSyncPeriod",
    "duration",
    "15m",
    "kube-ipvs watches objects and never resyncs them",
    "config-sync-period",
  ],
  [
    "portRange",
    "port-range",
    "",
    "kube-ipvs chooses free ports for its userspace mode",
    "proxy-port-range",
  ],
  [
    "showHiddenMetricsForVersion",
    "text",
    "",
    "kube-ipvs hides no metrics",
    "show-hidden-metrics-for-version",
  ],
  ["logging.flushFrequency", "duration-or-nanoseconds", "5s", unbuffered, "log-flush-frequency"],
  ["logging.vmodule", "ignored", "", "logging.verbosity applies to all source files"],
  ["logging.options.text.splitStream", "boolean", "false", unbuffered, "log-text-split-stream"],
  ["logging.options.text.infoBufferSize", "ignored", "0", unbuffered, "log-text-info-buffer-size"],
  ["logging.options.json.splitStream", "boolean", "false", unbuffered, "log-json-split-stream"],
  ["logging.options.json.infoBufferSize", "ignored", "0", unbuffered, "log-json-info-buffer-size"],
  ["nftables.masqueradeAll", "boolean", "false", otherMode],
  ["nftables.masqueradeBit", "integer", "14", otherMode],
  ["nftables.syncPeriod", "duration", "30s", otherMode],
  ["nftables.minSyncPeriod", "duration", "1s", otherMode],
  ["winkernel.networkName", "text", "", windows],
  ["winkernel.sourceVip", "text", "", windows],
  ["winkernel.enableDSR", "boolean", "false", windows],
  ["winkernel.rootHnsEndpointName", "text", "", windows],
  ["winkernel.forwardHealthCheckVip", "boolean", "false", windows],
  ["windowsRunAsService", "boolean", "false", windows],
];

/** kube-proxy settings that are accepted but have no effect. As in kube-proxy, logging flags override the file. */
export const ignoredFields: readonly Field[] = rows.map(([path, kind, value, noEffect, flag]) => ({
  path,
  kind,
  default: value,
  noEffect,
  ...(flag === undefined ? { help: "" } : { flag, help: `no effect: ${noEffect}` }),
  // Zero is valid for nftables.masqueradeBit.
  ...(kind === "integer" ? { keepsZero: true } : {}),
  ...(path.startsWith("logging.") ? { winsOverFile: true } : {}),
}));
