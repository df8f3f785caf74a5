import type { Config } from "../../config/config.ts";

/** The configuration that counts at the moment; a reload puts another in its place. */
export interface LiveConfig {
  readonly current: Config;
}
