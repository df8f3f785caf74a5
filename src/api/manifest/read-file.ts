import { createHash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { systemErrorText } from "../../base/system-error-text.ts";
import type { PodRecord, SelectingService, StoredSlice } from "../../endpoint-slices/objects.ts";
import { type Decoder, decodeObject, decodeWith, type RecordOf } from "../decode/decode-object.ts";
import { type DecodeContext, fieldOf, isAbsent, pathOf } from "../decode/fields.ts";
import { decodePod } from "../decode/pod.ts";
import { decodeSelectingService } from "../decode/selecting-service.ts";
import { decodeStoredSlice } from "../decode/stored-slice.ts";
import type { ServiceRecord } from "../objects.ts";
import { printableText, type RefusalReason, refusal, withRefusal } from "../refusals.ts";
import type { InvalidObject, Refusal, ResourceKind } from "../source.ts";
import { withDefaults } from "./defaults.ts";
import { type ManifestValue, readDocuments } from "./documents.ts";

/** An object in a manifest file. */
export interface ManifestObject {
  readonly kind: ResourceKind | "pods";
  /** `namespace/name`, or `name` for a Node. */
  readonly name: string;
  /** Undefined for Pods, and for Services that are headless, invalid or served by another proxy. */
  readonly record: RecordOf[ResourceKind] | undefined;
  /** Input for creating EndpointSlices from Pods. */
  readonly endpointSources: Partial<EndpointSources>;
  /** Position, such as `file.yaml:12`. */
  readonly where: string;
}

/** The Pods, Services and existing slices from which endpoints are planned. */
export interface EndpointSources {
  readonly pods: readonly PodRecord[];
  readonly services: readonly SelectingService[];
  readonly slices: readonly StoredSlice[];
}

/** A file's contents, and values for detecting changes. */
export interface ManifestFile {
  /** Inode, size and times. An equal stamp means that the file is unchanged, unless `wasYoung` is true. */
  readonly stamp: string;
  readonly wasYoung: boolean;
  readonly digest: string;
  readonly objects: readonly ManifestObject[];
  /** The objects with invalid fields, and the file if it cannot be read. */
  readonly invalid: readonly InvalidObject[];
}

/** The supported kinds. An object without apiVersion is identified by its kind alone. */
const readKinds: ReadonlyMap<
  string,
  { readonly apiVersion: string; readonly resource: ManifestObject["kind"] }
> = new Map([
  ["Service", { apiVersion: "v1", resource: "services" }],
  ["EndpointSlice", { apiVersion: "discovery.k8s.io/v1", resource: "endpointslices" }],
  ["Node", { apiVersion: "v1", resource: "nodes" }],
  ["Pod", { apiVersion: "v1", resource: "pods" }],
]);

/** Decoding context, with a callback for objects that are ignored. */
export interface ManifestContext extends DecodeContext {
  readonly ignoreKind?: (kind: string, where: string) => undefined;
}

const maxFileBytes = 16 * 1024 * 1024;
/** A file modified less than this before it was read may change again without a new timestamp. */
const youngMs = 2_000;

/**
 * Reads a manifest file. If the file is unchanged, was emptied or cannot be parsed, returns `last`'s objects. Files that
 * were emptied or cannot be parsed are also reported to `refuse`. Returns `undefined` if the file does not exist. Invalid
 * fields are reported each time a changed file is read.
 */
export async function readManifestFile(
  file: { readonly folder: string; readonly name: string; readonly nowMs: number },
  last: ManifestFile | undefined,
  context: ManifestContext,
): Promise<ManifestFile | undefined> {
  const found = new Map<string, InvalidObject>();
  const refuse = (refused: Refusal): void => {
    const key = `${refused.kind} ${refused.subject}`;
    const invalid = withRefusal(found.get(key), refused);
    if (invalid !== undefined) found.set(key, invalid);
    context.refuse(refused);
  };
  const into = { ...context, refuse };
  const stale = last ?? { wasYoung: false, objects: [] };
  // Without a digest, the file is parsed again even if it is restored to its last contents.
  const unread = (stamp: string): ManifestFile => ({
    ...{ ...stale, stamp, digest: "" },
    invalid: [...found.values()],
  });
  const path = join(file.folder, file.name);
  const subject = printableText(file.name);
  try {
    const status = await stat(path);
    if (!status.isFile()) return undefined;
    const stamp = [status.ino, status.size, status.mtimeMs, status.ctimeMs].join();
    if (last?.stamp === stamp && !last.wasYoung) return last;
    const wasYoung = file.nowMs - status.mtimeMs < youngMs;
    if (status.size > maxFileBytes) {
      const detail = `${status.size} bytes`;
      into.refuse(manifestRefusal(subject, "file-too-large", { detail }));
      return unread(stamp);
    }
    const bytes = await readFile(path);
    const digest = createHash("sha256").update(bytes).digest("base64");
    if (last?.digest === digest) return { ...last, stamp, wasYoung };
    const objects = objectsOf(file.name, bytes, stale.objects, into) ?? stale.objects;
    return { stamp, wasYoung, digest, objects, invalid: [...found.values()] };
  } catch (error) {
    if (isGone(error)) return undefined;
    const detail = systemErrorText(error);
    into.refuse(manifestRefusal(subject, "unreadable-file", { detail }));
    return unread("");
  }
}

/** Builds a refusal for a position in the folder, for cases in which no object name is known. */
export function manifestRefusal(
  subject: string,
  reason: RefusalReason,
  more: { readonly field?: string; readonly value?: unknown; readonly detail?: string },
): Refusal {
  return refusal({ kind: "manifest", subject, field: "", reason, ...more });
}

function isGone(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}

/**
 * Parses the objects in a file. `undefined` if the file is invalid, or if it is empty but had objects before: a shell
 * empties a file before the program that writes the new contents starts.
 */
function objectsOf(
  fileName: string,
  bytes: Buffer,
  before: readonly ManifestObject[],
  into: ManifestContext,
): readonly ManifestObject[] | undefined {
  const shownName = printableText(fileName);
  if (bytes.length === 0 && before.length > 0) {
    const detail = "delete it to remove its last objects";
    into.refuse(manifestRefusal(shownName, "empty-file", { detail }));
    return undefined;
  }
  const content = readDocuments(fileName, bytes.toString("utf8"));
  if (content.kind === "problem") {
    const { line, column, reason: detail } = content.problem;
    const subject = `${shownName}:${line}:${column}`;
    into.refuse(manifestRefusal(subject, "invalid-manifest", { detail }));
    return undefined;
  }
  const objects = content.values.map((value, index) => {
    const object = manifestObject(value, `${shownName}${value.place}`, into);
    return object === undefined ? undefined : inOrder(object, { fileName, index });
  });
  return objects.filter((object) => object !== undefined);
}

/**
 * Orders Services by position in the files, which is the same after every restart. Manifests have no creation order, and a creation time copied from a cluster is meaningless here.
 */
function inOrder(
  object: ManifestObject,
  { fileName, index }: { readonly fileName: string; readonly index: number },
): ManifestObject {
  if (object.kind !== "services" || object.record === undefined) return object;
  // File names cannot contain NUL, so the order follows the names.
  const manifestOrder = `${fileName}\0${String(index).padStart(8, "0")}`;
  const record = { ...(object.record as ServiceRecord), createdAtSeconds: 0, manifestOrder };
  return { ...object, record };
}

/** Decodes one value. Undefined if it is not a supported object. */
export function manifestObject(
  { value }: ManifestValue,
  where: string,
  into: ManifestContext,
): ManifestObject | undefined {
  if (isAbsent(value)) return undefined;
  const kind = resourceOf(value, where, into);
  if (kind === undefined) return undefined;
  const refuse = (part: Refusal): void =>
    into.refuse({ ...part, message: `${part.message} (${where})` });
  const complete = withDefaults(kind, value);
  const context = { ...into, refuse };
  if (kind === "pods") {
    const pod = decodeWith(decodePod, kind, complete, context);
    if (pod === undefined) return undefined;
    const { identity, record } = pod;
    const endpointSources = record === undefined ? {} : { pods: [record] };
    return { kind, name: identity.name, record: undefined, where, endpointSources };
  }
  const decoded = decodeObject(kind, complete, context);
  if (decoded === undefined) return undefined;
  const { name } = decoded.identity;
  if (kind === "services" && lacksClusterIp(complete)) {
    const [field, reason] = ["spec.clusterIP", "missing-cluster-ip"] as const;
    refuse(refusal({ kind, subject: name, field, reason, value: "" }));
  }
  const endpointSources = endpointSourcesOf(kind, complete, into);
  return { kind, name, record: decoded.record, where, endpointSources };
}

/** Does not report invalid fields, because they were already reported for the object itself. */
function endpointSourcesOf(
  kind: ResourceKind,
  value: unknown,
  context: DecodeContext,
): Partial<EndpointSources> {
  const into = { ...context, refuse: () => {} };
  const made = <T>(decode: Decoder<T>): readonly T[] => {
    const record = decodeWith(decode, kind, value, into)?.record;
    return record === undefined ? [] : [record];
  };
  if (kind === "services") return { services: made(decodeSelectingService) };
  return kind === "endpointslices" ? { slices: made(decodeStoredSlice) } : {};
}

/** The supported kind of a value. Other kinds are ignored. A value without a kind is reported as invalid. */
function resourceOf(
  value: unknown,
  where: string,
  { refuse, ignoreKind }: ManifestContext,
): ManifestObject["kind"] | undefined {
  const kind = fieldOf(value, "kind");
  if (typeof kind !== "string")
    return void refuse(manifestRefusal(where, "missing-kind", { value }));
  const known = readKinds.get(kind);
  if (known === undefined) return ignoreKind?.(printableText(kind), where);
  const apiVersion = fieldOf(value, "apiVersion") ?? known.apiVersion;
  if (apiVersion === known.apiVersion) return known.resource;
  if (typeof apiVersion === "string" && groupOf(apiVersion) === groupOf(known.apiVersion)) {
    const found = { field: "apiVersion", value: apiVersion };
    return void refuse(manifestRefusal(where, "unsupported-api-version", found));
  }
  return ignoreKind?.(printableText(`${kind} (${String(apiVersion)})`), where);
}

/** `discovery.k8s.io/` for `discovery.k8s.io/v1`. Empty for the core group. */
function groupOf(apiVersion: string): string {
  return apiVersion.slice(0, apiVersion.lastIndexOf("/") + 1);
}

/**
 * Whether the Service has no cluster IP. Nothing allocates cluster IPs for manifests, so an absent one is a mistake,
 * not a headless Service.
 */
function lacksClusterIp(service: unknown): boolean {
  const clusterIp = pathOf(service, "spec", "clusterIP");
  return (
    (isAbsent(clusterIp) || clusterIp === "") && pathOf(service, "spec", "type") !== "ExternalName"
  );
}
