/** The cluster of the fault tests: echo Services with a live pod, and many similar Services that change. */
import { Networks } from "../../src/base/networks.ts";
import { noTuningFacts } from "../../src/plan/tuning-facts.ts";
import { type Abilities, positions, serviceOf, sliceOf } from "../support/many-services.ts";
import { nodeAddress } from "../support/node-network.ts";
import { type ApiObject, endpoint, endpointSlice, node, service } from "../support/objects.ts";
import { cidr } from "../support/records.ts";

export const echoPod = { name: "pod-1", address: "10.244.1.10" } as const;
/** Two addresses of the pod, which answers with a different weight at each; see long-connections.ts. */
export const echoAddresses: readonly string[] = [echoPod.address, "10.244.1.30"];
/** No process listens here. A node that loses its preference for a rack connects to this endpoint. */
const deadAddress = "10.239.9.9";
const echoPort = 8080;
const nodePort = 30_777;
/** Only the link that the test creates has this address. */
export const unboundAddress = "203.0.113.7";

const rackLabel = "example.com/rack";
const racks: Readonly<Record<string, string>> = { "node-1": "a", "node-2": "b" };

interface EchoService {
  /** The address and port to which the client connects. */
  readonly target: string;
  readonly annotations?: Readonly<Record<string, string>>;
  /** Only these addresses are endpoints. */
  readonly endpoints?: readonly ReturnType<typeof endpoint>[];
  readonly externalIPs?: readonly string[];
  readonly nodePort?: number;
}

const alive = endpoint(echoPod.address, { nodeName: "node-1" });

/** By name. Each uses another ability of docs/tuning.md. */
const echoServices: Readonly<Record<string, EchoService>> = {
  echo: { target: "10.96.0.7:7" },
  "echo-node-port": { target: `${nodeAddress}:${nodePort}`, nodePort },
  "echo-range": {
    target: `10.96.0.9:${echoPort}`,
    annotations: { "kube-ipvs.io/port-range": `${echoPort}-${echoPort + 1_000}` },
  },
  "echo-unbound": { target: `${unboundAddress}:7`, externalIPs: [unboundAddress] },
  "echo-rack": {
    target: "10.96.0.11:7",
    annotations: { "kube-ipvs.io/prefer-topology": `${rackLabel},minimum=0%` },
    endpoints: [alive, endpoint(deadAddress, { nodeName: "node-2" })],
  },
  "echo-weights": {
    target: "10.96.0.12:7",
    annotations: {
      "kube-ipvs.io/scheduler": "wrr",
      "kube-ipvs.io/weights": `http=:${echoPort}/weight`,
    },
    endpoints: echoAddresses.map((address) => endpoint(address, { nodeName: "node-1" })),
  },
};

export const portRangeMarks = 0x3fff0000;

/** The settings of the node, its rack, and the answers of {@link echoAddresses}. */
export const abilities: Abilities = {
  options: { portRangeMarks, areWeightsRequested: true },
  unboundNetworks: new Networks([cidr(`${unboundAddress}/32`)]),
  facts: {
    ...noTuningFacts,
    nodeGroups: new Map([
      [rackLabel, { nodeNames: new Set(["node-1"]), nodeCount: 2, isLabelUsed: true }],
    ]),
    answerOf: (address) => ({ weight: Number(address.split(".").at(-1)) }),
  },
};

/** Addresses of the client, one for each target; see traffic-client.ts. */
export const clientAddresses: readonly string[] = Object.keys(echoServices).map(
  (_, index) => `192.168.10.${1 + index}`,
);

/** Where the client connects, with its own address. */
export const echoTargets: readonly string[] = Object.values(echoServices).map(
  ({ target }, index) => `${target}@${clientAddresses[index]}`,
);

const endpointCount = 3;

function nodes(): readonly ApiObject[] {
  return Object.entries(racks).map(([name, rack], index) =>
    node({ name, addresses: [`192.168.10.${11 + index}`], labels: { [rackLabel]: rack } }),
  );
}

function echoObjects(): readonly ApiObject[] {
  return Object.entries(echoServices).flatMap(([name, one], index) => [
    service({
      ...{ name, type: one.nodePort === undefined ? "ClusterIP" : "NodePort" },
      clusterIps: [`10.96.0.${7 + index}`],
      ports: [
        {
          ...{ name: "http", protocol: "TCP", port: 7, targetPort: echoPort },
          ...(one.nodePort === undefined ? {} : { nodePort: one.nodePort }),
        },
      ],
      metadata: { annotations: one.annotations ?? {} },
      spec: { externalIPs: one.externalIPs ?? [] },
    }),
    endpointSlice({ name: `${name}-a`, service: name, endpoints: one.endpoints ?? [alive] }),
  ]);
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
    this.#put(...nodes(), ...echoObjects(), ...datagramObjects("10.239.0.1"));
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

  /** Like {@link first}, with the Nodes and the echo Services, which the clients need. */
  firstWithEcho(count: number): readonly ApiObject[] {
    return [...nodes(), ...echoObjects(), ...this.first(count)];
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
