/** A source's objects as they would be if a manifest file were applied, for `kube-ipvs plan -f`. */
import { isRecord } from "../../base/is-record.ts";
import type { RecordOf } from "../decode/decode-object.ts";
import { fieldOf, isAbsent } from "../decode/fields.ts";
import { TextPool } from "../decode/flat-text.ts";
import type { ServiceRecord } from "../objects.ts";
import type { Refuse } from "../refusals.ts";
import type { ObjectSource, ResourceKind, SourceListener } from "../source.ts";
import { readDocuments } from "./documents.ts";
import { type ManifestObject, manifestObject } from "./read-file.ts";

export interface AppliedFile {
  readonly name: string;
  readonly text: string;
}

interface AppliedOptions {
  readonly serviceProxyName?: string | undefined;
  /** Called for each invalid field or object in the file. */
  readonly refuse: Refuse;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Returns a source in which the file's Services and EndpointSlices replace those with the same name. The file's objects
 * are reported after the source's objects of the same kind, because a Service inherits the fields that an API server
 * would keep. Throws if the file is invalid or contains no such object.
 */
export function withAppliedFile(
  source: ObjectSource,
  file: AppliedFile,
  { serviceProxyName, refuse }: AppliedOptions,
): ObjectSource {
  const values = valuesIn(file);
  const texts = new TextPool();
  const decode = ({ value, where }: Value, into: Refuse): ManifestObject | undefined =>
    manifestObject({ value, place: "" }, where, { refuse: into, texts, serviceProxyName });
  const keyOf = (kind: string, name: string | undefined): string => `${kind} ${name}`;
  /** The replaced objects. */
  const before = new Map<string, RecordOf[ResourceKind] | undefined>();
  const keys = values.map((one) => {
    const object = decode(one, () => {});
    return keyOf(object?.kind ?? "", object?.name);
  });
  for (const key of keys) before.set(key, undefined);

  const reportFile = (listener: SourceListener, kind: ResourceKind): void => {
    for (const [index, { value, where }] of values.entries()) {
      const key = keys[index] ?? "";
      if (!key.startsWith(`${kind} `)) continue;
      const previous =
        kind === "services" ? (before.get(key) as ServiceRecord | undefined) : undefined;
      const record = decode({ value: inheriting(value, previous), where }, refuse)?.record;
      if (record === undefined) continue;
      if (kind === "services")
        listener.onService(undefined, inPlaceOf(record as ServiceRecord, previous));
      else listener.onEndpointSlice(undefined, record as RecordOf["endpointslices"]);
    }
  };
  /** Whether the file replaces the object. */
  const replaces = (key: string, current: RecordOf[ResourceKind] | undefined): boolean => {
    if (before.has(key)) before.set(key, current);
    return before.has(key);
  };
  return {
    ...(source.servers === undefined ? {} : { servers: () => source.servers?.() ?? [] }),
    stop: () => source.stop(),
    start: (listener, servedBefore) => {
      const replacing: SourceListener = {
        onService: (previous, current) => {
          if (!replaces(keyOf("services", (current ?? previous)?.name), current))
            listener.onService(previous, current);
        },
        onEndpointSlice: (previous, current) => {
          if (!replaces(keyOf("endpointslices", (current ?? previous)?.name), current))
            listener.onEndpointSlice(previous, current);
        },
        onNode: (previous, current) => listener.onNode(previous, current),
        onNodes: (nodes) => listener.onNodes?.(nodes),
        onServerVersion: (version) => listener.onServerVersion?.(version),
        onRefusal: (refused) => listener.onRefusal(refused),
        onSynced: (kind) => {
          reportFile(listener, kind);
          listener.onSynced(kind);
        },
      };
      return source.start(replacing, servedBefore);
    },
  };
}

interface Value {
  readonly value: unknown;
  readonly where: string;
}

function valuesIn({ name, text }: AppliedFile): readonly Value[] {
  const content = readDocuments(name, text);
  if (content.kind === "problem") {
    const { line, column, reason } = content.problem;
    throw new Error(`${name}:${line}:${column}: ${reason}`);
  }
  const values = content.values
    .filter(({ value }) => ["Service", "EndpointSlice"].includes(String(fieldOf(value, "kind"))))
    .map(({ value, place }) => ({ value, where: name + place }));
  if (values.length === 0) throw new Error(`${name}: contains no Service or EndpointSlice`);
  return values;
}

/** Adds the fields that an API server assigns and keeps if a Service is applied without them. */
function inheriting(service: unknown, previous: ServiceRecord | undefined): unknown {
  const spec = fieldOf(service, "spec");
  if (previous === undefined || !isRecord(service) || !isRecord(spec)) return service;
  const { clusterIps, ports, healthCheckNodePort, loadBalancerIps } = previous;
  const hasNodePorts = !["ClusterIP", undefined].includes(fieldOf(spec, "type") as string);
  const portOf = (port: unknown): unknown => {
    const protocol = fieldOf(port, "protocol") ?? "TCP";
    const same = ports.find(
      (one) => one.port === fieldOf(port, "port") && one.protocol === protocol,
    );
    return hasNodePorts && isRecord(port) ? { nodePort: same?.nodePort, ...port } : port;
  };
  const given = fieldOf(spec, "ports");
  return {
    status: { loadBalancer: { ingress: loadBalancerIps.map((ip) => ({ ip })) } },
    ...service,
    spec: {
      ...(isAbsent(fieldOf(spec, "clusterIP")) ? { clusterIPs: clusterIps } : {}),
      ...(hasNodePorts ? { healthCheckNodePort } : {}),
      ...spec,
      ...(Array.isArray(given) ? { ports: given.map(portOf) } : {}),
    } satisfies Fields,
  };
}

/** A Service keeps its age, which determines the owner of a contested address. A new Service is the youngest. */
function inPlaceOf(record: ServiceRecord, previous: ServiceRecord | undefined): ServiceRecord {
  const { createdAtSeconds = Number.MAX_SAFE_INTEGER, manifestOrder } = previous ?? {};
  return { ...record, createdAtSeconds, ...(manifestOrder === undefined ? {} : { manifestOrder }) };
}
