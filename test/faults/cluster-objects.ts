/** The cluster of the fault tests: an echo Service with a live pod, and many similar Services that change. */
import { positions, serviceOf, sliceOf } from "../support/many-services.ts";
import { clientAddress, nodeAddress } from "../support/node-network.ts";
import { type ApiObject, endpoint, endpointSlice, node, service } from "../support/objects.ts";

export const echoPod = { name: "pod-1", address: "10.244.1.10" } as const;
export const echoNodePort = 30_777;
const echoClusterIp = "10.96.0.7";

/** A second address of the same client; see traffic-client.ts. */
export const otherClientAddress = "192.168.10.2";

/** The echo Service's cluster IP and node port, to which the client connects. */
export const echoTargets: readonly string[] = [
  `${echoClusterIp}:7@${clientAddress}`,
  `${nodeAddress}:${echoNodePort}@${otherClientAddress}`,
];

const endpointCount = 3;

function echoObjects(): readonly ApiObject[] {
  const port = { name: "http", protocol: "TCP", port: 7, nodePort: echoNodePort, targetPort: 8080 };
  return [
    service({ name: "echo", type: "NodePort", clusterIps: [echoClusterIp], ports: [port] }),
    endpointSlice({
      name: "echo-a",
      service: "echo",
      endpoints: [endpoint(echoPod.address, { nodeName: "node-1" })],
    }),
  ];
}

/** A UDP Service. If it loses an endpoint, kube-ipvs searches for stale conntrack entries. */
function datagramObjects(endpointAddress: string): readonly ApiObject[] {
  const port = { name: "dns", protocol: "UDP", port: 53, targetPort: 5353 };
  return [
    service({ name: "dns", clusterIps: ["10.96.0.53"], ports: [port] }),
    endpointSlice({
      name: "dns-a",
      service: "dns",
      endpoints: [endpoint(endpointAddress, { nodeName: "node-2" })],
      ports: [{ name: "dns", protocol: "UDP", port: 5353 }],
    }),
  ];
}

function alike(index: number, count: number): readonly ApiObject[] {
  return [serviceOf(index), sliceOf(index, positions(count))];
}

function keyOf({ kind, metadata }: ApiObject): string {
  return `${kind} ${String(metadata["name"])}`;
}

/** The object changes in one churn step. */
export interface Change {
  readonly applied: readonly ApiObject[];
  readonly deleted: readonly ApiObject[];
}

export class ClusterObjects {
  readonly #serviceCount: number;
  readonly #objects = new Map<string, ApiObject>();
  #step = 0;
  #version = 0;

  constructor(serviceCount: number) {
    this.#serviceCount = serviceCount;
    this.#put(node(), ...echoObjects(), ...datagramObjects("10.239.0.1"));
    for (const index of positions(serviceCount)) this.#put(...alike(index, endpointCount));
  }

  /** The version, which grows with each change. */
  get version(): number {
    return this.#version;
  }

  all(): readonly ApiObject[] {
    return [...this.#objects.values()];
  }

  /** Only the objects of the first `count` Services, as on a server that lost the others. */
  first(count: number): readonly ApiObject[] {
    return positions(count).flatMap((index) => alike(index, endpointCount));
  }

  /** Like {@link first}, with the Node and the echo Service, which the clients need. */
  firstWithEcho(count: number): readonly ApiObject[] {
    return [node(), ...echoObjects(), ...this.first(count)];
  }

  /** Restores an earlier result of {@link all}. */
  reset(objects: readonly ApiObject[]): void {
    this.#objects.clear();
    this.#put(...objects);
  }

  /** The objects after a cluster restore: the same objects with new UIDs. */
  withOtherUids(): readonly ApiObject[] {
    return this.all().map((object) => {
      const uid = `restored-${String(object.metadata["uid"])}`;
      return { ...object, metadata: { ...object.metadata, uid } };
    });
  }

  /**
   * A churn step: `size` Services are created and as many deleted, others gain and lose endpoints, and the UDP Service
   * moves. Two consecutive states always differ.
   */
  change(size: number): Change {
    this.#step += 1;
    const turn = this.#step;
    const spare = (half: number): readonly number[] =>
      positions(size).map((offset) => this.#serviceCount + half * size + offset);
    const deleted = spare((turn + 1) % 2).flatMap((index) => alike(index, endpointCount));
    const applied = [
      ...spare(turn % 2).flatMap((index) => alike(index, endpointCount)),
      ...positions(size).map((offset) =>
        sliceOf((turn * size + offset) % this.#serviceCount, positions(1 + ((turn + offset) % 5))),
      ),
      ...datagramObjects(`10.239.0.${1 + (turn % 200)}`),
    ];
    for (const object of deleted) this.#objects.delete(keyOf(object));
    this.#put(...applied);
    return { applied, deleted };
  }

  #put(...objects: readonly ApiObject[]): void {
    this.#version += 1;
    for (const object of objects) this.#objects.set(keyOf(object), object);
  }
}
