import type { EndpointSliceRecord } from "../../api/objects.ts";
import type { IpAddress, IpFamily } from "../../base/ip.ts";
import {
  type Endpoint,
  type EndpointsByPort,
  endpointPortKey,
  mergeSlices,
} from "../../model/endpoints.ts";
import type { ServicePort } from "../../model/service-port.ts";

/** The endpoints of one Service in one family, merged as planning does it, when they are first asked for. */
export class ServiceEndpoints {
  readonly #slices: Iterable<EndpointSliceRecord>;
  readonly #family: IpFamily;
  readonly #nodeName: string;
  #byPort: EndpointsByPort | undefined;
  #nodes: ReadonlyMap<IpAddress, string> | undefined;

  /** `slices`: those of the Service; `nodeName`: this node's. */
  constructor(slices: Iterable<EndpointSliceRecord>, family: IpFamily, nodeName: string) {
    this.#slices = slices;
    this.#family = family;
    this.#nodeName = nodeName;
  }

  /** All that the slices name for this port, ready or not. */
  of({ portName: name, protocol }: ServicePort): readonly Endpoint[] {
    this.#byPort ??= mergeSlices(this.#slices, this.#family, this.#nodeName);
    return this.#byPort.get(endpointPortKey({ name, protocol })) ?? [];
  }

  /** Empty: the slices do not name it. */
  nodeOf(address: IpAddress): string {
    this.#nodes ??= this.#readNodes();
    return this.#nodes.get(address) ?? "";
  }

  #readNodes(): ReadonlyMap<IpAddress, string> {
    const nodes = new Map<IpAddress, string>();
    for (const { endpoints } of this.#slices) {
      for (const { address, nodeName } of endpoints) nodes.set(address, nodeName);
    }
    return nodes;
  }
}
