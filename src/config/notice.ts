import type { Field } from "./field.ts";

/** Something to log once logging is set up: configuration is read before. */
export interface ConfigNotice {
  readonly level: "info" | "warn";
  readonly event: string;
  readonly keys: Readonly<Record<string, string>>;
  /** The setting that was given in vain; absent: none was. With `--strict` it is a mistake. */
  readonly ignored?: string;
}

/** A setting that was given changes nothing. */
export function noEffectNotice(setting: string, reason: string): ConfigNotice {
  const keys = { setting, reason };
  return { level: "warn", event: "Setting has no effect", keys, ignored: setting };
}

/** With a file most flags count for nothing. */
export function ignoredFlagNotice(flag: string): ConfigNotice {
  const event = "Ignoring flag because a configuration file is set";
  return { level: "warn", event, keys: { flag: `--${flag}` }, ignored: `--${flag}` };
}

/** A flag that upstream will remove. */
export function deprecatedNotice({ path, insteadOf = "" }: Field): ConfigNotice {
  const keys = { flag: path, instead: insteadOf };
  return { level: "warn", event: "Flag is deprecated", keys };
}
