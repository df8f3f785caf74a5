/** Something to log once logging is set up: configuration is read before. */
export interface ConfigNotice {
  readonly level: "info" | "warn";
  readonly event: string;
  readonly keys: Readonly<Record<string, string>>;
}
