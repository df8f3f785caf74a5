/** What an API server answers: version, rights, other nodes, MetalLB. Bounded in time and bytes. */

import type { ApiConnection, ApiResponse } from "../../api/connection.ts";
import { fieldOf, pathOf } from "../../api/decode/fields.ts";
import type { Clock } from "../../base/clock.ts";
import { parseIpAddress } from "../../base/ip.ts";
import { parseJson } from "../../base/parse-json.ts";
import { escapeUnprintable } from "../../base/printable.ts";
import type { Cluster, OtherNode, RightFact } from "../node.ts";
import { once } from "./once.ts";

/** What the daemon asks for: ClusterRole system:node-proxier. */
const rights: readonly {
  readonly group: string;
  readonly resource: string;
  readonly verbs: readonly string[];
}[] = [
  { group: "", resource: "services", verbs: ["list", "watch"] },
  { group: "discovery.k8s.io", resource: "endpointslices", verbs: ["list", "watch"] },
  { group: "", resource: "nodes", verbs: ["get", "list", "watch"] },
  { group: "events.k8s.io", resource: "events", verbs: ["create", "patch"] },
];

const timeoutMs = 10_000;
/** 5,000 nodes have some 20 MB in full; they are asked for in pages. */
const mostBytes = 16 * 1024 * 1024;
const pageSize = "250";
const mostPages = 40;

export interface ClusterOptions {
  readonly connect: () => Promise<ApiConnection>;
  readonly clock: Clock;
  readonly nodeName: string;
}

export function readCluster({ connect, clock, nodeName }: ClusterOptions): Cluster {
  const connected = once(connect);
  const version = once(async () => await readVersion(await connected(), clock));
  // If the server does not answer, all parts fail with that one error.
  const answering = async (): Promise<ApiConnection> => {
    await version();
    return await connected();
  };
  return {
    version,
    rights: async () => await readRights(await answering()),
    otherNodes: async () => await readOtherNodes(await answering(), nodeName),
    metalLb: async () => await readMetalLb(await answering()),
  };
}

async function readVersion(
  connection: ApiConnection,
  clock: Clock,
): ReturnType<Cluster["version"]> {
  const response = await get(connection, "/version", {});
  const body = await readJson(response);
  if (response.status !== 200) throw statusError("/version", response.status, body);
  const theirsMs = Date.parse(String(response.headers["date"] ?? ""));
  // The header has whole seconds.
  const aheadMs = Number.isNaN(theirsMs) ? 0 : clock.nowMs() - theirsMs - 500;
  const version = fieldOf(body, "gitVersion");
  return { server: connection.server, version: escapeUnprintable(String(version ?? "?")), aheadMs };
}

async function readRights(connection: ApiConnection): Promise<readonly RightFact[]> {
  const facts: RightFact[] = [];
  for (const { group, resource, verbs } of rights) {
    for (const verb of verbs) {
      const isAllowed = await review(connection, { group, resource, verb });
      facts.push({ resource: group === "" ? resource : `${resource}.${group}`, verb, isAllowed });
    }
  }
  return facts;
}

const reviewPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/** Every authenticated user may ask (ClusterRole system:basic-user). */
async function review(
  connection: ApiConnection,
  resourceAttributes: Readonly<Record<string, string>>,
): Promise<boolean> {
  const body = JSON.stringify({
    apiVersion: "authorization.k8s.io/v1",
    kind: "SelfSubjectAccessReview",
    spec: { resourceAttributes },
  });
  const write = {
    method: "POST",
    path: reviewPath,
    contentType: "application/json",
    body,
  } as const;
  const response = await connection.send(write, AbortSignal.timeout(timeoutMs));
  const answer = await readJson(response);
  const isAllowed = pathOf(answer, "status", "allowed");
  if (response.status < 300 && typeof isAllowed === "boolean") return isAllowed;
  throw statusError("selfsubjectaccessreviews", response.status, answer);
}

async function readOtherNodes(
  connection: ApiConnection,
  nodeName: string,
): Promise<readonly OtherNode[]> {
  const nodes: OtherNode[] = [];
  for await (const item of itemsOf(connection, "/api/v1/nodes")) {
    const name = String(pathOf(item, "metadata", "name") ?? "");
    if (name === nodeName) continue;
    const given = pathOf(item, "status", "addresses");
    const addresses = (Array.isArray(given) ? given : []).flatMap(
      (one) => parseIpAddress(String(fieldOf(one, "address") ?? "")) ?? [],
    );
    nodes.push({ name: escapeUnprintable(name), addresses });
  }
  return nodes;
}

/** Written by MetalLB on each Service that it gave an address. */
const allocatedAnnotation = /^metallb\.(?:universe\.tf|io)\//;
const metalLbPods = { labelSelector: "app.kubernetes.io/name=metallb", limit: "1" };
const metalLbConfigMap = "/api/v1/namespaces/metallb-system/configmaps/config";

/** By its pods' labels or its ConfigMap where they may be read, and by the annotations of Services, which always may. */
async function readMetalLb(connection: ApiConnection): Promise<string | undefined> {
  const pods = await get(connection, "/api/v1/pods", metalLbPods);
  const list = fieldOf(await readJson(pods), "items");
  if (pods.status === 200 && Array.isArray(list) && list.length > 0) {
    return "MetalLB's pods are in the cluster";
  }
  const config = await get(connection, metalLbConfigMap, {});
  await readJson(config);
  if (config.status === 200) return "MetalLB's ConfigMap is in the cluster";
  for await (const item of itemsOf(connection, "/api/v1/services")) {
    const annotations = Object.keys(pathOf(item, "metadata", "annotations") ?? {});
    if (!annotations.some((name) => allocatedAnnotation.test(name))) continue;
    const name = ["namespace", "name"].map((part) => String(pathOf(item, "metadata", part) ?? "?"));
    return `Service ${escapeUnprintable(name.join("/"))} has its address from MetalLB`;
  }
  return undefined;
}

async function* itemsOf(connection: ApiConnection, path: string): AsyncGenerator<unknown> {
  let token = "";
  for (let page = 0; page < mostPages; page += 1) {
    const query = { limit: pageSize, ...(token === "" ? {} : { continue: token }) };
    const response = await get(connection, path, query);
    const body = await readJson(response);
    if (response.status !== 200) throw statusError(path, response.status, body);
    const items = fieldOf(body, "items");
    yield* Array.isArray(items) ? items : [];
    token = String(pathOf(body, "metadata", "continue") ?? "");
    if (token === "") return;
  }
}

async function get(
  connection: ApiConnection,
  path: string,
  query: Readonly<Record<string, string>>,
): Promise<ApiResponse> {
  return await connection.request(path, query, AbortSignal.timeout(timeoutMs));
}

/** An answer that is no JSON is nothing. Throws where it is too long. */
async function readJson({ body }: ApiResponse): Promise<unknown> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > mostBytes) throw new RangeError(`The answer is larger than ${mostBytes} bytes`);
    chunks.push(chunk);
  }
  try {
    return parseJson(Buffer.concat(chunks).toString("utf8"));
  } catch {
    return undefined;
  }
}

function statusError(what: string, status: number, body: unknown): Error {
  const words = escapeUnprintable(String(fieldOf(body, "message") ?? "")).slice(0, 300);
  return new Error(`Cannot read ${what}: HTTP ${status}${words === "" ? "" : ` (${words})`}`);
}
