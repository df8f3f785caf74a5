import type { ServiceListener } from "./service-listeners.ts";

/** A service port that is served. */
export interface OpenListener {
  readonly wanted: ServiceListener;
  /** The port of the listener's socket. */
  readonly localPort: number;
}
