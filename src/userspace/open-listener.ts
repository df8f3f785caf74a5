import type { LocalPorts } from "./listener.ts";
import type { ServiceListener } from "./service-listeners.ts";

/** A service port that is served. */
export interface OpenListener {
  readonly wanted: ServiceListener;
  /** Of the listener's sockets. */
  readonly localPorts: LocalPorts;
}
