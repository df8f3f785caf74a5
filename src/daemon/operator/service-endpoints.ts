import type { ServiceName } from "../../api/objects.ts";
import type { IpAddress, IpFamily } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import {
  type Endpoint,
  type EndpointsByPort,
  endpointPortKey,
  mergeSlices,
} from "../../model/endpoints.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { ObjectsView } from "./daemon-view.ts";

interface Known {
  readonly plan: { readonly tracker: Pick<ObjectsView["objects"], "slicesOf"> };
  readonly config: Pick<Config, "nodeName">;
}

/** The endpoints of one Service in one family, merged as planning does it, when they are first asked for. */
export class ServiceEndpoints {
  readonly #view: Known;
  readonly #service: ServiceName;
  readonly #family: IpFamily;
  #byPort: EndpointsByPort | undefined;
  #nodes: ReadonlyMap<IpAddress, string> | undefined;

  constructor(view: Known, service: ServiceName, family: IpFamily) {
    this.#view = view;
    this.#service = service;
    this.#family = family;
  }

  /** All that the slices name for this port, ready or not. */
  of({ portName: name, protocol }: ServicePort): readonly Endpoint[] {
    this.#byPort ??= mergeSlices(
      this.#view.plan.tracker.slicesOf(this.#service),
      this.#family,
      this.#view.config.nodeName,
    );
    return this.#byPort.get(endpointPortKey({ name, protocol })) ?? [];
  }

  /** Empty: the slices do not name it. */
  nodeOf(address: IpAddress): string {
    this.#nodes ??= this.#readNodes();
    return this.#nodes.get(address) ?? "";
  }

  #readNodes(): ReadonlyMap<IpAddress, string> {
    const nodes = new Map<IpAddress, string>();
    for (const { endpoints } of this.#view.plan.tracker.slicesOf(this.#service)) {
      for (const { address, nodeName } of endpoints) nodes.set(address, nodeName);
    }
    return nodes;
  }
}
