import type { Field } from "./field.ts";

/**
 * A log line about the configuration. It is logged later, because the configuration is read before logging is set up.
 */
export interface ConfigNotice {
  readonly level: "info" | "warn";
  readonly event: string;
  readonly keys: Readonly<Record<string, string>>;
  /** The ignored setting; an error with `--strict`. Undefined if no setting is ignored. */
  readonly ignored?: string;
}

export function noEffectNotice(setting: string, reason: string): ConfigNotice {
  const keys = { setting, reason };
  return { level: "warn", event: "Setting has no effect", keys, ignored: setting };
}

/** Reports a flag that does not apply because there is a configuration file. */
export function ignoredFlagNotice(flag: string): ConfigNotice {
  const event = "Ignoring flag because a configuration file is set";
  return { level: "warn", event, keys: { flag: `--${flag}` }, ignored: `--${flag}` };
}

/** Reports a flag that kube-proxy has deprecated. */
export function deprecatedNotice({ path, insteadOf = "" }: Field): ConfigNotice {
  const keys = { flag: path, instead: insteadOf };
  return { level: "warn", event: "Flag is deprecated", keys };
}
