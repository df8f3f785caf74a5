/**
 * A two-node cluster in the lab: the test API server, EndpointSlices from the project's own controller, kubelets that
 * run each pod in a network namespace, and the built program as a DaemonSet pod on each node. Accounts have the roles
 * that `deploy/` and Kubernetes define. This process is in the LAN's namespace.
 */
import type { ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { openConnection } from "../../../src/api/cluster/open-connection.ts";
import { systemClock } from "../../../src/base/clock.ts";
import { silentLogger } from "../../../src/base/log.ts";
import { EndpointController } from "../../../src/endpoint-controller/controller.ts";
import { type Grant, isAllowed, type PolicyRule } from "../api-server/access.ts";
import { ApiServer } from "../api-server/api-server.ts";
import { enterNetworkNamespace, leaveNetworkNamespace } from "../netns/network-namespace.ts";
import { type ApiObject, node } from "../objects.ts";
import { Allocator } from "./allocator.ts";
import {
  buildClusterNetwork,
  type ClusterNodePlace,
  lan,
  lanAddress,
  nodePlaces,
  removeClusterNetwork,
} from "./cluster-network.ts";
import { Kubelet } from "./kubelet.ts";

const deployFolder: string = join(import.meta.dirname, "../../../deploy/kustomize");
const certificates: string = join(import.meta.dirname, "../../unit/api/http/certificates");
export const daemonAccount = "system:serviceaccount:kube-system:kube-ipvs";
const readyLine = /First sync completed|^Ready$/m;

/** Kubernetes 1.36's ClusterRole system:node-proxier (plugin/pkg/auth/authorizer/rbac/bootstrappolicy). */
const nodeProxier: readonly PolicyRule[] = [
  { apiGroups: [""], resources: ["services"], verbs: ["list", "watch"] },
  { apiGroups: [""], resources: ["nodes"], verbs: ["get", "list", "watch"] },
  { apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["list", "watch"] },
  {
    apiGroups: ["", "events.k8s.io"],
    resources: ["events"],
    verbs: ["create", "patch", "update"],
  },
];

export class SmallCluster {
  readonly api: ApiServer;
  readonly #folder: string;
  readonly #kubelets: readonly Kubelet[];
  #stopController: () => Promise<void> = async () => {};
  #isStopping = false;
  #daemonCount = 0;

  private constructor(api: ApiServer) {
    this.api = api;
    this.#folder = mkdtempSync(join(tmpdir(), "kube-ipvs-cluster-"));
    this.#kubelets = nodePlaces.map((place) => new Kubelet(api, place, readyLine));
    for (const [index, kubelet] of this.#kubelets.entries()) {
      kubelet.onEnd = ({ metadata }) => this.#replaceDaemon(metadata, index);
    }
  }

  /** Resolves when the API server accepts objects. The daemons start in the background. */
  static async start(): Promise<SmallCluster> {
    buildClusterNetwork();
    enterNetworkNamespace(lan);
    const nodes = nodePlaces.map(({ name, addresses, podCidrs }) =>
      node({ name, addresses, podCidrs }),
    );
    const api = await ApiServer.start({
      host: lanAddress,
      objects: nodes,
      keepAliveMs: 120_000,
      // Tokens are only sent over TLS.
      tls: {
        cert: readFileSync(join(certificates, "server.crt")),
        key: readFileSync(join(certificates, "server.key")),
      },
    });
    const cluster = new SmallCluster(api);
    const allocator = new Allocator();
    api.writes.admit = (object) => allocator.admit(object);
    api.startCommand = ({ pod, command }) => cluster.exec(pod, command);
    const grants = grantsByToken();
    api.authorize = (token, attributes) => isAllowed(grants.get(token) ?? [], attributes);
    api.review = (user, attributes) =>
      user === daemonAccount && isAllowed([{ rules: nodeProxier }], attributes);
    api.store.subscribe(({ resource, current, previous }) => {
      if (resource.kind === "Namespace" && current === undefined && previous !== undefined) {
        cluster.#empty(String(previous.metadata["name"]));
      }
    });
    await cluster.#startController();
    for (const place of nodePlaces) cluster.#startDaemon(place);
    return cluster;
  }

  /** A kubeconfig for the Job's account under `deploy/`. */
  get kubeconfig(): string {
    return this.#kubeconfigFor("e2e");
  }

  exec(pod: string, command: readonly string[]): ChildProcess | undefined {
    for (const kubelet of this.#kubelets) {
      const child = kubelet.exec(pod, command);
      if (child !== undefined) return child;
    }
    return undefined;
  }

  /** Resolves when each node's daemon has completed its first sync. */
  async daemonsReady(): Promise<void> {
    const ready = Promise.withResolvers<void>();
    const unsubscribe = this.api.store.subscribe(() => {
      const daemons = this.#objects("/api/v1/pods").filter(({ status }) => status !== undefined);
      if (daemons.length >= nodePlaces.length) ready.resolve();
    });
    await ready.promise.finally(unsubscribe);
  }

  /** Names of a namespace's objects of one kind. */
  names(path: string, namespace: string): readonly string[] {
    return this.#objects(path)
      .filter(({ metadata }) => metadata["namespace"] === namespace)
      .map(({ metadata }) => String(metadata["name"]));
  }

  /** Applies the namespace of the acceptance test, as `kubectl apply -k deploy/kustomize/e2e` does before each run. */
  applyTestNamespace(): void {
    const namespace = documentsOf("e2e").find(({ kind }) => kind === "Namespace");
    if (namespace === undefined) throw new Error("deploy/kustomize/e2e has no Namespace");
    this.api.store.apply(namespace);
  }

  get namespaces(): readonly string[] {
    return this.#objects("/api/v1/namespaces").map(({ metadata }) => String(metadata["name"]));
  }

  /** The daemons' output, for a failure message. */
  get daemonOutput(): string {
    return this.#kubelets.map(({ output }) => output).join("\n");
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#stopController();
    await Promise.all(this.#kubelets.map((kubelet) => kubelet.stop()));
    await this.api.stop();
    leaveNetworkNamespace();
    removeClusterNetwork();
    rmSync(this.#folder, { recursive: true });
  }

  #objects(path: string): readonly ApiObject[] {
    return this.api.store.list({ path, kind: "", apiVersion: "" });
  }

  /** Deletes a namespace's objects, as the controllers do after its deletion. */
  #empty(namespace: string): void {
    for (const path of [
      "/api/v1/pods",
      "/api/v1/services",
      "/apis/discovery.k8s.io/v1/endpointslices",
    ]) {
      const own = this.#objects(path).filter(({ metadata }) => metadata["namespace"] === namespace);
      this.api.delete(...own);
    }
  }

  async #startController(): Promise<void> {
    const connection = await openConnection(
      { clock: systemClock, environment: {} },
      { kubeconfig: this.#kubeconfigFor("controller"), master: "", userAgent: "controller" },
    );
    const controller = new EndpointController({
      ...{ connection, clock: systemClock, log: silentLogger, guard: { percent: 0 } },
      random: Math.random,
    });
    controller.start();
    this.#stopController = async () => {
      await controller.stop();
      connection.close();
    };
  }

  #replaceDaemon(metadata: ApiObject["metadata"], index: number): void {
    const place = nodePlaces[index];
    if (this.#isStopping || place === undefined || metadata["namespace"] !== "kube-system") return;
    this.#startDaemon(place);
  }

  #startDaemon(place: ClusterNodePlace): void {
    this.#daemonCount += 1;
    const name = `kube-ipvs-${this.#daemonCount}`;
    const command = [
      "/usr/local/bin/kube-proxy",
      `--config=${this.#configFor(place)}`,
      "--hostname-override=$(NODE_NAME)",
    ];
    const env = [{ name: "NODE_NAME", valueFrom: { fieldRef: { fieldPath: "spec.nodeName" } } }];
    const image = "kube-ipvs:test";
    this.api.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        ...{ name, namespace: "kube-system", uid: name },
        labels: { "k8s-app": "kube-ipvs" },
      },
      spec: {
        ...{ nodeName: place.name, hostNetwork: true, serviceAccountName: "kube-ipvs" },
        containers: [{ name: "kube-ipvs", image, command, env }],
      },
    });
  }

  #configFor({ name }: ClusterNodePlace): string {
    const path = join(this.#folder, `${name}.json`);
    const config = {
      apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
      kind: "KubeProxyConfiguration",
      mode: "ipvs",
      clusterCIDR: "10.244.0.0/16,fd00:244::/32",
      clientConnection: { kubeconfig: this.#kubeconfigFor("daemon") },
      // The limit belongs to the kernel's first network namespace.
      conntrack: { maxPerCore: 0 },
      ipvs: { minSyncPeriod: "0s" },
      kubeIpvs: { lockName: name, stateFile: join(this.#folder, `${name}.state`) },
    };
    writeFileSync(path, JSON.stringify(config));
    return path;
  }

  #kubeconfigFor(token: string): string {
    const path = join(this.#folder, `${token}.kubeconfig`);
    const cluster = {
      server: this.api.url,
      "certificate-authority": join(certificates, "ca.crt"),
      "tls-server-name": "api.example",
    };
    const config = {
      clusters: [{ name: "lab", cluster }],
      contexts: [{ name: "lab", context: { cluster: "lab", user: token } }],
      users: [{ name: token, user: { token } }],
      "current-context": "lab",
    };
    writeFileSync(path, JSON.stringify(config));
    return path;
  }
}

/** Permissions of the Job and the controller (from their manifests) and of the daemon (from Kubernetes). */
function grantsByToken(): ReadonlyMap<string, readonly Grant[]> {
  return new Map<string, readonly Grant[]>([
    ["e2e", grantsOf("e2e")],
    ["daemon", [{ rules: nodeProxier }]],
    ["controller", grantsOf("endpoint-controller")],
  ]);
}

type Document = ApiObject & { readonly rules?: readonly PolicyRule[] };

function documentsOf(kustomization: string): readonly Document[] {
  const text = readFileSync(join(deployFolder, kustomization, "rbac.yaml"), "utf8");
  return parseAllDocuments(text).map((document) => document.toJS() as Document);
}

function grantsOf(kustomization: string): readonly Grant[] {
  return documentsOf(kustomization).flatMap(({ kind, metadata, rules }): readonly Grant[] => {
    if (rules === undefined) return [];
    return kind === "ClusterRole"
      ? [{ rules }]
      : [{ namespace: String(metadata["namespace"]), rules }];
  });
}
