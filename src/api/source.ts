import type { IpAddress } from "../base/ip.ts";
import type { EndpointSliceRecord, NodeRecord, ServiceRecord } from "./objects.ts";

export type ResourceKind = "services" | "endpointslices" | "nodes";

/**
 * A part of an object (or a whole one) that was left out because it is invalid. The rest is used.
 * `reason` is a fixed code, the same word in log, metric and tests: see `refusals.ts`.
 */
export interface Refusal {
  readonly kind: ResourceKind | "pods" | "manifest";
  /** `namespace/name`, or the file with its line. */
  readonly subject: string;
  /** Path of the field: `spec.ports[1].port`. Empty for the whole object. */
  readonly field: string;
  readonly reason: string;
  /** A sentence for people, with the offending value shortened and made printable. */
  readonly message: string;
}

/**
 * A list that would take away so much that a second one is asked for: what became of it. `refuted`: the
 * second list has what the first lacked; `expired`: no second one came, so the first one counts.
 */
export interface ListQuarantine {
  readonly kind: ResourceKind;
  readonly outcome: "held" | "confirmed" | "refuted" | "expired";
  /** Addresses known before, and how many of them the list does not have. */
  readonly known: number;
  readonly missing: number;
}

/** What the node served before the start: each first list is compared with it, and asks for it when it is complete. */
export interface ServedAddresses {
  readonly services: () => Promise<ReadonlySet<IpAddress>>;
  readonly endpointslices: () => Promise<ReadonlySet<IpAddress>>;
}

/** All Nodes, by name. */
export type Nodes = ReadonlyMap<string, Pick<NodeRecord, "addresses" | "podCidrs" | "weight">>;

/** Where an API server is reached. */
export interface ServerEndpoint {
  readonly address: IpAddress;
  readonly port: number;
}

/** The API server's version as it reports it: `1`, `30`, `v1.30.4`. */
export interface ServerVersion {
  readonly major: string;
  readonly minor: string;
  readonly gitVersion: string;
}

/**
 * What a source reports. `previous` is the last-known record of the same name. A Service that turns
 * headless, or a slice that is no longer ours, is reported as a removal. `synced` comes once per kind, after
 * every object of the first complete list was reported. Callbacks must not throw.
 */
export interface SourceListener {
  onService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): void;
  onEndpointSlice(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void;
  onNode(previous: NodeRecord | undefined, current: NodeRecord | undefined): void;
  onSynced(kind: ResourceKind): void;
  /** Called again for each occurrence; who logs must summarize. */
  onRefusal(refusal: Refusal): void;
  /** Only where lists are guarded. */
  onListQuarantine?(quarantine: ListQuarantine): void;
  /** Only where all Nodes are at hand: when anything of them changed. */
  onNodes?(nodes: Nodes): void;
  /** Only from an API server: when it is known, and when it changes. */
  onServerVersion?(version: ServerVersion): void;
}

/** Where objects come from: an API server, or a folder of manifests. */
export interface ObjectSource {
  /** Starts telling; resolves when the source runs, not when it is synced. */
  start(listener: SourceListener, servedBefore?: ServedAddresses): Promise<void>;
  /** Where the objects come from, as far as it is known; absent or empty: not from an API server. */
  servers?(): readonly ServerEndpoint[];
  /** Reads all Nodes. Undefined if nobody has them, or if the source reports them by itself. */
  listNodes?(signal: AbortSignal): Promise<Nodes>;
  /** No callback comes after it resolved. */
  stop(): Promise<void>;
}
