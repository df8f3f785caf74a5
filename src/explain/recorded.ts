/** The plan and the kernel state of a node as text, from which another machine can explain packets. Pure. */
import { createHash } from "node:crypto";
import type { PlanFacts } from "../answer/answers.ts";
import type { IpFamily } from "../base/ip.ts";
import { isRecord } from "../base/is-record.ts";
import { parseJson } from "../base/parse-json.ts";
import type { FamilyState } from "./read/read-families.ts";

export interface RecordedNode {
  readonly facts: PlanFacts;
  readonly states: ReadonlyMap<IpFamily, FamilyState>;
}

/** JSON with the node and its digest. {@link readRecorded} checks the digest instead of each field. */
const form = /^\{"sha256":"(.*?)","node":(.*)\}\n$/s;

export function recordedText(node: RecordedNode): string {
  const text = JSON.stringify(node, (_, value: unknown) => {
    if (value instanceof Map) return { $map: [...value] };
    if (value instanceof Set) return { $set: [...value] };
    return value instanceof Uint8Array ? { $bytes: Buffer.from(value).toString("hex") } : value;
  });
  return `{"sha256":"${digestOf(text)}","node":${text}}\n`;
}

/** Parses text that the same version of this program wrote. Throws if the text was changed. */
export function readRecorded(text: string): RecordedNode {
  const [, digest, node = ""] = form.exec(text) ?? [];
  if (digest !== digestOf(node))
    throw new Error("node-state.json was changed after kube-ipvs sysdump wrote it");
  return parseJson(node, (_, value) => {
    if (!isRecord(value)) return value;
    if ("$map" in value) return new Map(value["$map"] as [unknown, unknown][]);
    if ("$set" in value) return new Set(value["$set"] as unknown[]);
    return "$bytes" in value ? Uint8Array.from(Buffer.from(String(value["$bytes"]), "hex")) : value;
  }) as RecordedNode;
}

function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
