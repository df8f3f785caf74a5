/** Something to log once logging is set up: configuration is read before. */
export interface ConfigNotice {
  readonly level: "info" | "warn";
  readonly event: string;
  readonly keys: Readonly<Record<string, string>>;
}

/** A setting that was given changes nothing. */
export function noEffectNotice(setting: string, reason: string): ConfigNotice {
  return { level: "warn", event: "Setting has no effect", keys: { setting, reason } };
}

/** With a file most flags count for nothing. */
export function idleFlagNotice(flag: string): ConfigNotice {
  const event = "Flag ignored because a configuration file is given";
  return { level: "warn", event, keys: { flag: `--${flag}` } };
}

/** A flag that upstream will remove. */
export function deprecatedNotice(flag: string, insteadOf: string): ConfigNotice {
  const keys = { flag: `--${flag}`, instead: insteadOf };
  return { level: "warn", event: "Flag is deprecated", keys };
}
