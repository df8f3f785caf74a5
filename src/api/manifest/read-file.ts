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
import { printableText, type RefusalReason, refusal } from "../refusals.ts";
import type { Refusal, ResourceKind } from "../source.ts";
import { withDefaults } from "./defaults.ts";
import { type ManifestValue, readDocuments } from "./documents.ts";

/** An object of a manifest file. */
export interface ManifestObject {
  readonly kind: ResourceKind | "pods";
  /** `namespace/name`, or `name` for a Node. */
  readonly name: string;
  /** Absent when there is nothing to use in it: headless, another proxy's, refused, a Pod. */
  readonly record: RecordOf[ResourceKind] | undefined;
  /** What it has to do with endpoints that are made from Pods. */
  readonly endpointParts: Partial<EndpointParts>;
  /** `file.yaml:12`. */
  readonly where: string;
}

/** What of a manifest endpoints are made from, or what shows that they are made already. */
export interface EndpointParts {
  readonly pods: readonly PodRecord[];
  readonly services: readonly SelectingService[];
  readonly slices: readonly StoredSlice[];
}

/** What a file holds, with what is needed to see whether it changed. */
export interface ManifestFile {
  /** Size, times and inode; equal stamps mean an unchanged file, unless it was young when it was read. */
  readonly stamp: string;
  readonly wasYoung: boolean;
  readonly digest: string;
  readonly objects: readonly ManifestObject[];
}

/** The kinds we read; an object without apiVersion is taken by its kind alone. */
const readKinds: ReadonlyMap<
  string,
  { readonly apiVersion: string; readonly resource: ManifestObject["kind"] }
> = new Map([
  ["Service", { apiVersion: "v1", resource: "services" }],
  ["EndpointSlice", { apiVersion: "discovery.k8s.io/v1", resource: "endpointslices" }],
  ["Node", { apiVersion: "v1", resource: "nodes" }],
  ["Pod", { apiVersion: "v1", resource: "pods" }],
]);

/** What decoding needs, and who hears of objects that are not read. */
export interface ManifestContext extends DecodeContext {
  readonly ignoreKind?: (kind: string, where: string) => undefined;
}

const maxFileBytes = 16 * 1024 * 1024;
/** A file changed this shortly before it was read may change again without a new time stamp. */
const youngMs = 2_000;

/**
 * Reads a manifest file, or returns `last` where nothing changed or the file cannot be understood; the
 * latter is reported to `refuse`. `undefined` when the file is gone. Parts of objects that are refused are reported
 * whenever the file is read again.
 */
export async function readManifestFile(
  file: { readonly folder: string; readonly name: string; readonly nowMs: number },
  last: ManifestFile | undefined,
  into: ManifestContext,
): Promise<ManifestFile | undefined> {
  const path = join(file.folder, file.name);
  const subject = printableText(file.name);
  try {
    const status = await stat(path);
    if (!status.isFile()) return undefined;
    const stamp = [status.ino, status.size, status.mtimeMs, status.ctimeMs].join();
    if (last?.stamp === stamp && !last.wasYoung) return last;
    const wasYoung = file.nowMs - status.mtimeMs < youngMs;
    const stale = last ?? { digest: "", objects: [] };
    if (status.size > maxFileBytes) {
      const detail = `${status.size} bytes`;
      into.refuse(manifestRefusal(subject, "file-too-large", { detail }));
      return { ...stale, stamp, wasYoung: false };
    }
    const bytes = await readFile(path);
    const digest = createHash("sha256").update(bytes).digest("base64");
    if (last?.digest === digest) return { ...last, stamp, wasYoung };
    const objects = objectsOf(file.name, bytes.toString("utf8"), into) ?? stale.objects;
    return { stamp, wasYoung, digest, objects };
  } catch (error) {
    if (isGone(error)) return undefined;
    const detail = systemErrorText(error);
    into.refuse(manifestRefusal(subject, "unreadable-file", { detail }));
    return last;
  }
}

/** Refuses what is at a place in the folder, as far as it is not yet an object with a name. */
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

/** The objects of a text; `undefined` when it is broken. */
function objectsOf(
  fileName: string,
  text: string,
  into: ManifestContext,
): readonly ManifestObject[] | undefined {
  const content = readDocuments(fileName, text);
  const shownName = printableText(fileName);
  if (content.kind === "problem") {
    const { line, column, reason: detail } = content.problem;
    const subject = `${shownName}:${line}:${column}`;
    into.refuse(manifestRefusal(subject, "invalid-manifest", { detail }));
    return undefined;
  }
  const objects = content.values.map((value, index) => {
    const object = objectOf(value, `${shownName}${value.place}`, into);
    return object === undefined ? undefined : inOrder(object, { fileName, index });
  });
  return objects.filter((object) => object !== undefined);
}

/**
 * Files have no order of creation, and a time that was copied from a cluster says nothing here: the place in
 * the order of files decides, the same after every restart.
 */
function inOrder(
  object: ManifestObject,
  { fileName, index }: { readonly fileName: string; readonly index: number },
): ManifestObject {
  if (object.kind !== "services" || object.record === undefined) return object;
  // A file's name holds no NUL, so that the order is that of the names.
  const manifestOrder = `${fileName}\0${String(index).padStart(8, "0")}`;
  const record = { ...(object.record as ServiceRecord), createdAtSeconds: 0, manifestOrder };
  return { ...object, record };
}

function objectOf(
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
    const endpointParts = record === undefined ? {} : { pods: [record] };
    return { kind, name: identity.name, record: undefined, where, endpointParts };
  }
  const decoded = decodeObject(kind, complete, context);
  if (decoded === undefined) return undefined;
  const { name } = decoded.identity;
  if (kind === "services" && lacksClusterIp(complete)) {
    const [field, reason] = ["spec.clusterIP", "missing-cluster-ip"] as const;
    refuse(refusal({ kind, subject: name, field, reason, value: "" }));
  }
  const endpointParts = endpointPartsOf(kind, complete, into);
  return { kind, name, record: decoded.record, where, endpointParts };
}

/** What is invalid was refused with the object itself. */
function endpointPartsOf(
  kind: ResourceKind,
  value: unknown,
  context: DecodeContext,
): Partial<EndpointParts> {
  const into = { ...context, refuse: () => {} };
  const made = <T>(decode: Decoder<T>): readonly T[] => {
    const record = decodeWith(decode, kind, value, into)?.record;
    return record === undefined ? [] : [record];
  };
  if (kind === "services") return { services: made(decodeSelectingService) };
  return kind === "endpointslices" ? { slices: made(decodeStoredSlice) } : {};
}

/** Which of our kinds a value is; others are none of our business, a value without kind is a mistake. */
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

/** `discovery.k8s.io/` of `discovery.k8s.io/v1`; empty for the core group. */
function groupOf(apiVersion: string): string {
  return apiVersion.slice(0, apiVersion.lastIndexOf("/") + 1);
}

/** Nobody allocates cluster IPs here; a Service that waits for one was not meant to be headless. */
function lacksClusterIp(service: unknown): boolean {
  const clusterIp = pathOf(service, "spec", "clusterIP");
  return (
    (isAbsent(clusterIp) || clusterIp === "") && pathOf(service, "spec", "type") !== "ExternalName"
  );
}
