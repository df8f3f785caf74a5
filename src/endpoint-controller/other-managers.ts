import type { Logger } from "../base/log.ts";
import type { ServiceName } from "../base/service-name.ts";

/** Logs once for each Service whose slices have another manager, and again when they no longer have one. */
export class OtherManagers {
  readonly #log: Logger;
  readonly #managed = new Map<ServiceName, string>();

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
        ? "Service's EndpointSlices have no other manager anymore, creating them"
        : "Service's EndpointSlices have another manager, skipping the Service";
    this.#log.info(event, { service, ...(managedBy === undefined ? {} : { managedBy }) });
  }
}
