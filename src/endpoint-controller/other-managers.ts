import type { Logger } from "../base/log.ts";
import type { ServiceName } from "../base/service-name.ts";

/**
 * Number of messages at the default verbosity. With another controller in the cluster, every Service may cause one.
 */
const maxLines = 20;

/** Logs once for each Service that another manager has slices for it, and logs when that is no longer the case. */
export class OtherManagers {
  readonly #log: Logger;
  readonly #managed = new Map<ServiceName, string>();
  #lines = 0;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** `managedBy` is the manager of slices that kube-ipvs does not own. Undefined if there are none. */
  note(service: ServiceName, managedBy: string | undefined): void {
    const before = this.#managed.get(service);
    if (before === managedBy) return;
    if (managedBy === undefined) this.#managed.delete(service);
    else this.#managed.set(service, managedBy);
    const event =
      managedBy === undefined
        ? "EndpointSlices of the Service have no other manager any more, making them"
        : "EndpointSlices of the Service have another manager, leaving it alone";
    this.#write(event, { service, ...(managedBy === undefined ? {} : { managedBy }) });
  }

  #write(event: string, keys: Readonly<Record<string, unknown>>): void {
    this.#lines += 1;
    if (this.#lines > maxLines) this.#log.verbose(2, event, keys);
    else this.#log.info(event, keys);
    if (this.#lines === maxLines) this.#log.info("Suppressing similar messages below -v=2");
  }
}
