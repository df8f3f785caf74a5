import type { Config } from "../../config/config.ts";

/** The configuration in force. A reload replaces `current`. */
export interface LiveConfig {
  readonly current: Config;
}
