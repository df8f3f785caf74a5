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
