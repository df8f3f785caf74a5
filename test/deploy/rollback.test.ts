/**
 * Tests the commands in docs/migrate/kubeadm.md that save and restore kubeadm's DaemonSet. The test server rejects an
 * update with an outdated resourceVersion as a conflict, as an API server does.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { parseAllDocuments } from "yaml";
import { readManifests } from "../support/container/pod.ts";
import { shellBlocksOf } from "../support/documents/guides.ts";

const project = join(import.meta.dirname, "../..");
const guide = readFileSync(join(project, "docs/migrate/kubeadm.md"), "utf8");

const upgradeGuide = readFileSync(join(project, "docs/upgrade.md"), "utf8");

/** The guide's command lines that contain `part`, without comments. Exactly one block must contain them. */
function commandsWith(part: string, page = guide): string {
  const [block, ...more] = shellBlocksOf(page).filter((text) => text.includes(part));
  assert.ok(
    block !== undefined && more.length === 0,
    `not exactly one block in the guide has ${part}`,
  );
  return block;
}

interface Stored {
  metadata: Record<string, unknown>;
  [field: string]: unknown;
}

const daemonSet = (image: string): Stored => ({
  apiVersion: "apps/v1",
  kind: "DaemonSet",
  metadata: {
    name: "kube-proxy",
    namespace: "kube-system",
    resourceVersion: "7",
    uid: "3d0e",
    generation: 1,
    creationTimestamp: "2026-01-01T00:00:00Z",
  },
  spec: {
    selector: { matchLabels: { "k8s-app": "kube-proxy" } },
    template: {
      metadata: { labels: { "k8s-app": "kube-proxy" } },
      spec: { containers: [{ name: "kube-proxy", image }] },
    },
  },
});
const namespace = "namespaces/kube-system";
const path = `/apis/apps/v1/${namespace}/daemonsets/kube-proxy`;
const configMapPath = `/api/v1/${namespace}/configmaps/kube-proxy`;
const configMap = (mode: string): Stored => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "kube-proxy", namespace: "kube-system", resourceVersion: "3", uid: "9a1c" },
  data: { "config.conf": `kind: KubeProxyConfiguration\nmode: ${mode}\n` },
});
const stored = new Map<string, Stored>([
  [path, daemonSet("kube-proxy")],
  [configMapPath, configMap("iptables")],
]);

const resource = (name: string, kind: string, short: string): object => ({
  name,
  singularName: name.replace(/s$/, ""),
  namespaced: true,
  kind,
  verbs: ["get", "list", "update", "patch"],
  shortNames: [short],
});
const discovery: Readonly<Record<string, object>> = {
  "/api": { kind: "APIVersions", versions: ["v1"] },
  "/apis": {
    kind: "APIGroupList",
    groups: [
      {
        name: "apps",
        versions: [{ groupVersion: "apps/v1", version: "v1" }],
        preferredVersion: { groupVersion: "apps/v1", version: "v1" },
      },
    ],
  },
  "/api/v1": {
    kind: "APIResourceList",
    groupVersion: "v1",
    resources: [resource("configmaps", "ConfigMap", "cm")],
  },
  "/apis/apps/v1": {
    kind: "APIResourceList",
    groupVersion: "apps/v1",
    resources: [resource("daemonsets", "DaemonSet", "ds")],
  },
};

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname } = new URL(request.url ?? "", "http://server");
  const send = (status: number, body: object): void => {
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(body));
  };
  const object = discovery[pathname] ?? stored.get(pathname);
  const failure = (code: number, reason: string): void =>
    send(code, { kind: "Status", apiVersion: "v1", status: "Failure", code, reason });
  if (request.method === "POST") return create(await bodyOf(request), send);
  if (object === undefined) return failure(404, "NotFound");
  if (request.method === "GET") return send(200, object);
  if (request.method === "DELETE") {
    stored.delete(pathname);
    return send(200, { kind: "Status", apiVersion: "v1", status: "Success" });
  }
  const update = await bodyOf(request);
  const current = stored.get(pathname)?.metadata["resourceVersion"];
  const given = update.metadata["resourceVersion"];
  if (given !== undefined && given !== current) return failure(409, "Conflict");
  stored.set(pathname, replaced(update, Number(current) + 1));
  send(200, stored.get(pathname) ?? {});
}

async function bodyOf(request: IncomingMessage): Promise<Stored> {
  return JSON.parse(Buffer.concat(await request.toArray()).toString()) as Stored;
}

/** Assigns the version of a new object, as an API server does. */
function create(object: Stored, send: (status: number, body: object) => void): void {
  if (object.metadata["resourceVersion"] === undefined) {
    stored.set(path, replaced(object, 1));
    send(201, object);
  } else {
    send(400, { kind: "Status", apiVersion: "v1", status: "Failure", code: 400 });
  }
}

function replaced(update: Stored, version: number): Stored {
  return { ...update, metadata: { ...update.metadata, resourceVersion: String(version) } };
}

const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-rollback-"));
let server: Server;
before(async () => {
  server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const cluster = { server: `http://127.0.0.1:${port}` };
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "c", cluster }],
    contexts: [{ name: "c", context: { cluster: "c", user: "" } }],
    "current-context": "c",
  };
  writeFileSync(join(folder, "kubeconfig"), JSON.stringify(config));
});
after(async () => {
  await new Promise((resolve) => server.close(resolve));
  rmSync(folder, { recursive: true });
});

/** Runs lines in a shell. */
async function run(script: string): Promise<{ readonly code: number; readonly output: string }> {
  const child = spawn("sh", ["-euc", script], {
    cwd: folder,
    env: { ...process.env, KUBECONFIG: join(folder, "kubeconfig"), HOME: folder },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const chunks: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  }
  const code = await new Promise<number>((resolve) => child.on("close", resolve));
  return { code, output: Buffer.concat(chunks).toString() };
}

/** The logical lines of a block that start with `start`. */
function linesOf(block: string, start: string): string {
  const lines = block.replaceAll("\\\n", "").split("\n");
  return lines.filter((line) => line.startsWith(start)).join("\n");
}

/** The guide's command without validation, because the server has no schemas. */
function rollback(): string {
  const command = linesOf(commandsWith("kubectl replace"), "kubectl replace");
  return command.replace("replace", "replace --validate=false");
}

const hasKubectl = spawnSync("kubectl", ["version", "--client"]).status === 0;

describe("a rollback with kubectl", { skip: hasKubectl ? false : "no kubectl here" }, () => {
  it("restores the saved DaemonSet and ConfigMap although they were changed after they were saved", async () => {
    const saved = await run(
      linesOf(commandsWith("> kube-proxy.yaml"), "kubectl -n kube-system get daemonset"),
    );
    assert.equal(saved.code, 0, saved.output);
    stored.set(path, replaced(daemonSet("kube-ipvs"), 8));
    stored.set(configMapPath, replaced(configMap("ipvs"), 4));
    const back = await run(rollback());
    assert.equal(back.code, 0, back.output);
    const images = JSON.stringify(stored.get(path)).match(/"image":"[^"]+"/g);
    assert.deepEqual(images, ['"image":"kube-proxy"']);
    assert.deepEqual(stored.get(configMapPath)?.["data"], configMap("iptables")["data"]);
  });

  it("is rejected if the object was saved as kubectl prints it", async () => {
    stored.set(path, daemonSet("kube-proxy"));
    const saved = await run(
      "kubectl -n kube-system get daemonset kube-proxy -o yaml > kube-proxy.yaml",
    );
    assert.equal(saved.code, 0, saved.output);
    stored.set(path, replaced(daemonSet("kube-ipvs"), 8));
    const back = await run(rollback());
    assert.notEqual(back.code, 0);
    assert.match(back.output, /Conflict/);
  });

  it("changes a node only when its pod is deleted during an upgrade", async () => {
    const [printed = ""] = commandsWith("OnDelete/", upgradeGuide).split("| kubectl apply");
    const script = `cd '${project}'; ${printed}`;
    const { code, output } = await run(script);
    assert.equal(code, 0, output);
    const documents = parseAllDocuments(output).map((document) => document.toJS());
    const [daemonSet] = documents.filter(({ kind }) => kind === "DaemonSet");
    assert.deepEqual(daemonSet.spec.updateStrategy, { type: "OnDelete" });
    const [usual] = readManifests("replace-kube-proxy").filter(({ kind }) => kind === "DaemonSet");
    const { template } = (usual as unknown as typeof daemonSet).spec;
    assert.deepEqual(daemonSet.spec.template, template);
  });
});
