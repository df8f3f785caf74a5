/**
 * Reads the version, permissions, other nodes and MetalLB's presence from the API server. Limits the time and size of
 * all responses.
 */

import { readJson } from "../../api/cluster/answers.ts";
import { listNodes } from "../../api/cluster/list-nodes.ts";
import { type ListConnection, listItems } from "../../api/cluster/list-pages.ts";
import { collections } from "../../api/cluster/watched-resources.ts";
import type { ApiConnection } from "../../api/connection.ts";
import { decodeObject } from "../../api/decode/decode-object.ts";
import { fieldOf, pathOf } from "../../api/decode/fields.ts";
import { TextPool } from "../../api/decode/flat-text.ts";
import type { Right } from "../../api/needed-rights.ts";
import type { Clock } from "../../base/clock.ts";
import { escapeUnprintable } from "../../base/printable.ts";
import type { Cluster, DeadNode, MetalLbFact, OtherNode, RightFact } from "../node.ts";
import { once } from "./once.ts";

const timeoutMs = 10_000;
/** The time must suffice for a list of 5,000 nodes, which has about 20 MB. */
const listTimeoutMs = 60_000;

export interface ClusterOptions {
  readonly connect: () => Promise<ApiConnection>;
  readonly clock: Clock;
  readonly nodeName: string;
  /** The permissions to check. */
  readonly rights: readonly Right[];
}

export function readCluster({ connect, clock, nodeName, rights }: ClusterOptions): Cluster {
  const connected = once(async () => ({ connection: await connect(), clock }));
  const version = once(async () => await readVersion(await connected()));
  // If the server does not answer, all methods fail with the same error.
  const answering = async (): Promise<ListConnection> => {
    await version();
    return await connected();
  };
  return {
    version,
    rights: async () => await readRights(await answering(), rights),
    otherNodes: async () => await readOtherNodes(await answering(), nodeName),
    deadNodes: async () => await readDeadNodes(await answering()),
    metalLb: async () => await readMetalLb(await answering()),
  };
}

async function readVersion({ connection, clock }: ListConnection): ReturnType<Cluster["version"]> {
  const response = await connection.request("/version", {}, AbortSignal.timeout(timeoutMs));
  const body = await readJson({ name: "version" }, response);
  const theirsMs = Date.parse(String(response.headers["date"] ?? ""));
  // The Date header is truncated to seconds, so the average error is 500 ms.
  const aheadMs = Number.isNaN(theirsMs) ? 0 : clock.nowMs() - theirsMs - 500;
  const version = fieldOf(body, "gitVersion");
  return { server: connection.server, version: escapeUnprintable(String(version ?? "?")), aheadMs };
}

async function readRights(
  asked: ListConnection,
  rights: readonly Right[],
): Promise<readonly RightFact[]> {
  const facts: RightFact[] = [];
  for (const right of rights) {
    const { group, resource, verb } = right;
    const name = group === "" ? resource : `${resource}.${group}`;
    facts.push({ resource: name, verb, isAllowed: await review(asked, right) });
  }
  return facts;
}

const reviews = {
  name: "selfsubjectaccessreviews.authorization.k8s.io",
  path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
};

/** All authenticated users may create this review (ClusterRole system:basic-user). */
async function review({ connection }: ListConnection, resourceAttributes: Right): Promise<boolean> {
  const body = JSON.stringify({
    apiVersion: "authorization.k8s.io/v1",
    kind: "SelfSubjectAccessReview",
    spec: { resourceAttributes },
  });
  const { path } = reviews;
  const write = { method: "POST", path, contentType: "application/json", body } as const;
  const response = await connection.send(write, AbortSignal.timeout(timeoutMs));
  return pathOf(await readJson(reviews, response), "status", "allowed") === true;
}

async function readOtherNodes(
  asked: ListConnection,
  nodeName: string,
): Promise<readonly OtherNode[]> {
  const all = await listNodes(asked, AbortSignal.timeout(listTimeoutMs));
  return [...all].flatMap(([name, { addresses }]) =>
    name === nodeName ? [] : [{ name: escapeUnprintable(name), addresses }],
  );
}

/** Lists EndpointSlices only if a Node is not ready. */
async function readDeadNodes(asked: ListConnection): Promise<readonly DeadNode[]> {
  const dead = new Map<string, { readyEndpoints: number; services: Set<string> }>();
  const signal = AbortSignal.timeout(listTimeoutMs);
  await listItems(asked, { resource: collections.nodes, signal }, (item) => {
    const name = pathOf(item, "metadata", "name");
    const ready = arrayOf(pathOf(item, "status", "conditions")).find(
      (condition) => fieldOf(condition, "type") === "Ready",
    );
    // A Node without the condition has not reported its status yet.
    if (typeof name !== "string" || ready === undefined || fieldOf(ready, "status") === "True")
      return;
    dead.set(name, { readyEndpoints: 0, services: new Set() });
  });
  if (dead.size === 0) return [];
  // The daemon reports invalid slices. Slices of headless Services have no record.
  const into = { refuse: () => {}, texts: new TextPool() };
  await listItems(asked, { resource: collections.endpointslices, signal }, (item) => {
    const slice = decodeObject("endpointslices", item, into)?.record;
    if (slice === undefined) return;
    for (const { nodeName, isReady } of slice.endpoints) {
      const node = dead.get(nodeName);
      if (node === undefined || !isReady) continue;
      node.readyEndpoints += 1;
      node.services.add(slice.service);
    }
  });
  return [...dead]
    .filter(([, { readyEndpoints }]) => readyEndpoints > 0)
    .map(([name, { readyEndpoints, services }]) => {
      return { name: escapeUnprintable(name), readyEndpoints, services: [...services] };
    });
}

function arrayOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** MetalLB sets such an annotation on each Service to which it assigns an address. */
const allocatedAnnotation = /^metallb\.(?:universe\.tf|io)\//;
const metalLbPods = { labelSelector: "app.kubernetes.io/name=metallb", limit: "1" };
const metalLbConfigMap = "/api/v1/namespaces/metallb-system/configmaps/config";

/** Detects MetalLB by its pods or its ConfigMap, if this process may read them, or by Service annotations. */
async function readMetalLb(asked: ListConnection): Promise<MetalLbFact | undefined> {
  const read = async (path: string, query: Readonly<Record<string, string>>): Promise<unknown> => {
    const response = await asked.connection.request(path, query, AbortSignal.timeout(timeoutMs));
    return await readJson({ name: path }, response);
  };
  const pods = await read(collections.pods.path, metalLbPods).catch(() => undefined);
  const list = fieldOf(pods, "items");
  if (Array.isArray(list) && list.length > 0)
    return { evidence: "MetalLB's pods are in the cluster" };
  const config = await read(metalLbConfigMap, {}).catch(() => undefined);
  if (config !== undefined) return { evidence: "MetalLB's ConfigMap is in the cluster" };
  const found: string[] = [];
  const signal = AbortSignal.timeout(listTimeoutMs);
  await listItems(asked, { resource: collections.services, signal }, (item) => {
    const annotations = Object.keys(pathOf(item, "metadata", "annotations") ?? {});
    if (!annotations.some((name) => allocatedAnnotation.test(name))) return;
    const name = ["namespace", "name"].map((part) => String(pathOf(item, "metadata", part) ?? "?"));
    found.push(name.join("/"));
  });
  const [first] = found;
  if (first === undefined) return undefined;
  const service = escapeUnprintable(first);
  return { evidence: `Service ${service} got its address from MetalLB`, service };
}
