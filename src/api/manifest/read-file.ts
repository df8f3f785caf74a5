import { createHash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { systemErrorText } from "../../base/system-error-text.ts";
import type { PodRecord, SelectingService, StoredSlice } from "../../endpoint-slices/objects.ts";
import { decodeObject, decodeWith, type RecordOf } from "../decode/decode-object.ts";
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
  readonly endpointPart?: EndpointPart;
  /** `file.yaml:12`. */
  readonly where: string;
}

/** What an object has to do with endpoints that are made from Pods. */
export type EndpointPart =
  | { readonly kind: "pod"; readonly pod: PodRecord }
  | { readonly kind: "service"; readonly service: SelectingService }
  | { readonly kind: "slice"; readonly slice: StoredSlice };

/** What a file holds, with what is needed to see whether it changed. */
export interface ManifestFile {
  /** Size, times and inode; equal stamps mean an unchanged file, unless it was young when it was read. */
  readonly stamp: string;
  readonly wasYoung: boolean;
  readonly digest: string;
  readonly objects: readonly ManifestObject[];
}

/** The kinds we read; an object without apiVersion is taken by its kind alone. */
const readKinds: readonly {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly resource: ManifestObject["kind"];
}[] = [
  { group: "", version: "v1", kind: "Service", resource: "services" },
  {
    group: "discovery.k8s.io/",
    version: "v1",
    kind: "EndpointSlice",
    resource: "endpointslices",
  },
  { group: "", version: "v1", kind: "Node", resource: "nodes" },
  { group: "", version: "v1", kind: "Pod", resource: "pods" },
];

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
  const refuseFile = (reason: RefusalReason, detail: string): ManifestFile | undefined => {
    into.refuse(
      refusal({ kind: "manifest", subject: printableText(file.name), field: "", reason, detail }),
    );
    return last;
  };
  try {
    const status = await stat(path);
    if (!status.isFile()) return undefined;
    const stamp = [status.ino, status.size, status.mtimeMs, status.ctimeMs].join();
    if (last?.stamp === stamp && !last.wasYoung) return last;
    const wasYoung = file.nowMs - status.mtimeMs < youngMs;
    const stale = last ?? { digest: "", objects: [] };
    if (status.size > maxFileBytes) {
      refuseFile("file-too-large", `${status.size} bytes`);
      return { ...stale, stamp, wasYoung: false };
    }
    const bytes = await readFile(path);
    const digest = createHash("sha256").update(bytes).digest("base64");
    if (last?.digest === digest) return { ...last, stamp, wasYoung };
    const objects = objectsOf(file.name, bytes.toString("utf8"), into) ?? stale.objects;
    return { stamp, wasYoung, digest, objects };
  } catch (error) {
    if (isGone(error)) return undefined;
    return refuseFile("unreadable-file", systemErrorText(error));
  }
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
    into.refuse(
      refusal({ kind: "manifest", subject, field: "", reason: "invalid-manifest", detail }),
    );
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
  if (kind === "pods") return podOf(complete, where, { ...into, refuse });
  const decoded = decodeObject(kind, complete, { ...into, refuse });
  if (decoded === undefined) return undefined;
  const { name } = decoded.identity;
  if (kind === "services" && lacksClusterIp(complete)) {
    refuse(
      refusal({
        kind,
        subject: name,
        field: "spec.clusterIP",
        reason: "missing-cluster-ip",
        value: "",
      }),
    );
  }
  const endpointPart = endpointPartOf(kind, complete, into);
  const object = { kind, name, record: decoded.record, where };
  return endpointPart === undefined ? object : { ...object, endpointPart };
}

function podOf(value: unknown, where: string, into: DecodeContext): ManifestObject | undefined {
  const decoded = decodeWith(decodePod, "pods", value, into);
  if (decoded === undefined) return undefined;
  const { identity, record: pod } = decoded;
  const object = { kind: "pods", name: identity.name, record: undefined, where } as const;
  return pod === undefined ? object : { ...object, endpointPart: { kind: "pod", pod } };
}

/** What is invalid was refused with the object itself. */
function endpointPartOf(
  kind: ResourceKind,
  value: unknown,
  context: DecodeContext,
): EndpointPart | undefined {
  const into = { ...context, refuse: () => {} };
  if (kind === "services") {
    const service = decodeWith(decodeSelectingService, kind, value, into)?.record;
    return service === undefined ? undefined : { kind: "service", service };
  }
  if (kind !== "endpointslices") return undefined;
  const slice = decodeWith(decodeStoredSlice, kind, value, into)?.record;
  return slice === undefined ? undefined : { kind: "slice", slice };
}

/** Which of our kinds a value is; others are none of our business, a value without kind is a mistake. */
function resourceOf(
  value: unknown,
  where: string,
  { refuse, ignoreKind }: ManifestContext,
): ManifestObject["kind"] | undefined {
  const refuseValue = (field: string, reason: RefusalReason, found: unknown): undefined =>
    refuse(refusal({ kind: "manifest", subject: where, field, reason, value: found })) as undefined;
  const kind = fieldOf(value, "kind");
  if (typeof kind !== "string") return refuseValue("", "missing-kind", value);
  const known = readKinds.find((candidate) => candidate.kind === kind);
  if (known === undefined) return ignoreKind?.(printableText(kind), where);
  const apiVersion = fieldOf(value, "apiVersion") ?? known.group + known.version;
  if (apiVersion === known.group + known.version) return known.resource;
  const isSameGroup = typeof apiVersion === "string" && groupOf(apiVersion) === known.group;
  if (isSameGroup) return refuseValue("apiVersion", "unsupported-api-version", apiVersion);
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
