import type { IpAddress } from "../base/ip.ts";
import type { EndpointSliceRecord, NodeRecord, ServiceRecord } from "./objects.ts";

export type ResourceKind = "services" | "endpointslices" | "nodes";

/**
 * Reports that an invalid field or object is ignored. The rest of the object is used. `reason` is one of the codes in
 * `refusals.ts`, which logs, metrics and tests share.
 */
export interface Refusal {
  readonly kind: ResourceKind | "pods" | "manifest";
  /** `namespace/name`, or the file and line. */
  readonly subject: string;
  /** Path of the field, such as `spec.ports[1].port`. Empty for the whole object. */
  readonly field: string;
  readonly reason: string;
  /** Human-readable sentence. The invalid value in it is shortened and made printable. */
  readonly message: string;
}

/** An object or a manifest file that currently has invalid fields. */
export interface InvalidObject extends Pick<Refusal, "kind" | "subject" | "message"> {
  /** Number of invalid fields. `message` describes the first one. */
  readonly invalidFields: number;
}

/**
 * A list that would remove so many addresses that a second list is requested. Outcome `refuted`: the second list
 * contains what was missing. `expired`: no second list arrived in time, so the first one is applied.
 */
export interface ListQuarantine {
  readonly kind: ResourceKind;
  readonly outcome: "held" | "confirmed" | "refuted" | "expired";
  /** Number of previously known addresses, and how many of them the list lacks. */
  readonly known: number;
  readonly missing: number;
}

/**
 * Returns the addresses that the node served before startup. The source compares each complete first list with them.
 */
export interface ServedAddresses {
  readonly services: () => Promise<ReadonlySet<IpAddress>>;
  readonly endpointslices: () => Promise<ReadonlySet<IpAddress>>;
}

/** All Nodes, by name. */
export type Nodes = ReadonlyMap<
  string,
  Pick<NodeRecord, "addresses" | "podCidrs" | "weight" | "labels">
>;

/** Address and port of an API server. */
export interface ServerEndpoint {
  readonly address: IpAddress;
  readonly port: number;
}

/** Version that the API server reports, for example `1`, `30` and `v1.30.4`. */
export interface ServerVersion {
  readonly major: string;
  readonly minor: string;
  readonly gitVersion: string;
}

/**
 * Callbacks of a source. `previous` is the last known record with the same name. If a Service becomes headless, or a
 * slice no longer belongs to a proxied Service, the source reports a removal. `onSynced` is called once per kind,
 * after all objects of the first complete list. Callbacks must not throw.
 */
export interface SourceListener {
  onService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): void;
  onEndpointSlice(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void;
  onNode(previous: NodeRecord | undefined, current: NodeRecord | undefined): void;
  onSynced(kind: ResourceKind): void;
  /** Called each time an invalid field is found. The listener must summarize repeated reports. */
  onRefusal(refusal: Refusal): void;
  /** Only called if the source has a relist guard. */
  onListQuarantine?(quarantine: ListQuarantine): void;
  /** Called when any Node changes, if the source reads all Nodes. */
  onNodes?(nodes: Nodes): void;
  /** Called when the API server's version becomes known or changes. Other sources never call it. */
  onServerVersion?(version: ServerVersion): void;
}

/** A source of objects: an API server or a folder of manifests. */
export interface ObjectSource {
  /** Starts reporting. Resolves when the source is running, which may be before it is synced. */
  start(listener: SourceListener, servedBefore?: ServedAddresses): Promise<void>;
  /** Why the objects may be outdated, and since when (monotonic time). Undefined if they are current. */
  problem?(): { readonly message: string; readonly sinceMs: number } | undefined;
  /** The objects that currently have ignored fields. Undefined if the source does not know them. */
  invalidObjects?(): readonly InvalidObject[];
  /** The known addresses of the API servers. Absent or empty if the source is not an API server. */
  servers?(): readonly ServerEndpoint[];
  /**
   * Reads all Nodes with these labels. Undefined if they are not available, or if the source reports them through
   * `onNodes`, with all their labels.
   */
  listNodes?(signal: AbortSignal, labels: ReadonlySet<string>): Promise<Nodes>;
  /** Stops the source. No callback is called after the promise resolves. */
  stop(): Promise<void>;
}
