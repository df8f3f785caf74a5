/** Logging settings. As in kube-proxy, their flags override the file. */
export const loggingFields = [
  {
    path: "logging.verbosity",
    kind: "integer",
    default: "0",
    min: 0,
    max: 0x7fffffff,
    flag: "v",
    shortFlag: "v",
    isLive: true,
    help: "log verbosity; with 2 or more, each sync is logged",
  },
  {
    path: "logging.format",
    default: "text",
    words: ["text", "json"],
    help: "log format: text or json",
  },
] as const;
