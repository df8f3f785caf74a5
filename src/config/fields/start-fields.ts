/** Flags without a configuration file field. Deprecated flags are ignored if there is a file. */
export const startFields = [
  {
    path: "--config",
    help: "path of a KubeProxyConfiguration file (v1alpha1)",
  },
  {
    path: "--master",
    help: "API server URL; overrides the one in the kubeconfig",
  },
  {
    path: "--cleanup",
    kind: "boolean",
    help: "remove all kernel state of kube-ipvs and exit",
  },
  {
    path: "--init-only",
    kind: "boolean",
    help: "load modules, set sysctls and exit; for a privileged init container",
  },
  {
    path: "--write-config-to",
    help: "write the effective configuration to this file and exit",
  },
  {
    path: "--kube-ipvs-force-cleanup",
    kind: "boolean",
    help: "allow --cleanup even while kube-ipvs is running; the running kube-ipvs will recreate its state",
  },
  {
    path: "--strict",
    kind: "boolean",
    help: "reject a configuration with unknown fields, unknown feature gates or settings that have no effect",
  },
  {
    path: "--healthz-port",
    kind: "optional-integer",
    min: 0,
    max: 65_535,
    help: "health server port; 0 disables it (deprecated, use --healthz-bind-address)",
    insteadOf: "--healthz-bind-address",
  },
  {
    path: "--metrics-port",
    kind: "optional-integer",
    min: 0,
    max: 65_535,
    help: "metrics server port (deprecated, use --metrics-bind-address)",
    insteadOf: "--metrics-bind-address",
  },
  {
    path: "--boot-id-file",
    help: "",
    noEffect: "kube-ipvs does not read it",
  },
  {
    path: "--machine-id-file",
    help: "",
    noEffect: "kube-ipvs does not read it",
  },
  {
    path: "--vmodule",
    help: "",
    noEffect: "-v applies to all source files",
  },
] as const;
