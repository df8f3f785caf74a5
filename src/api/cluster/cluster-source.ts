import { lookup } from "node:dns/promises";
import type { RecordOf } from "../decode/decode-object.ts";
import type {
  InvalidObject,
  Nodes,
  ObjectSource,
  ResourceKind,
  ServedAddresses,
  ServerEndpoint,
  SourceListener,
} from "../source.ts";
import { listNodes } from "./list-nodes.ts";
import { Reflector, type ReflectorDependencies } from "./reflector.ts";
import { listenerTarget } from "./reflector-target.ts";
import { type LookUp, ServerAddresses } from "./server-addresses.ts";
import { followServerVersion } from "./server-version.ts";
import { watchedResources } from "./watched-resources.ts";

export interface ClusterSourceOptions {
  readonly nodeName: string;
  /** If undefined, only Services without a proxy name are selected. */
  readonly serviceProxyName?: string | undefined;
  /** If absent or 0, every complete list is applied immediately. */
  readonly relistGuardPercent?: number;
}

/** Reads objects from an API server. Survives all server outages, and continues until `stop` is called. */
export class ClusterSource implements ObjectSource {
  readonly #dependencies: ReflectorDependencies;
  readonly #options: ClusterSourceOptions;
  readonly #serverAddresses: ServerAddresses;
  readonly #abort = new AbortController();
  #reflectors: readonly Reflector<RecordOf[ResourceKind]>[] = [];
  #running: Promise<unknown> = Promise.resolve();

  constructor(dependencies: ReflectorDependencies, options: ClusterSourceOptions) {
    this.#dependencies = dependencies;
    this.#options = options;
    const lookUp: LookUp = (hostname) => lookup(hostname, { all: true });
    this.#serverAddresses = new ServerAddresses(dependencies.connection.server, lookUp);
  }

  servers(): readonly ServerEndpoint[] {
    return this.#serverAddresses.current();
  }

  invalidObjects(): readonly InvalidObject[] {
    return this.#reflectors.flatMap((reflector) => [...reflector.invalidObjects()]);
  }

  listNodes(signal: AbortSignal, labels: ReadonlySet<string>): Promise<Nodes> {
    return listNodes(this.#dependencies, AbortSignal.any([signal, this.#abort.signal]), labels);
  }

  async start(listener: SourceListener, servedBefore?: ServedAddresses): Promise<void> {
    const { nodeName, serviceProxyName, relistGuardPercent = 0 } = this.#options;
    const dependencies = { ...this.#dependencies, guard: { percent: relistGuardPercent } };
    const { nodes, services, endpointslices } = watchedResources(nodeName, serviceProxyName);
    this.#reflectors = [nodes, services, endpointslices].map((resource) => {
      const target = listenerTarget<ResourceKind>(resource, listener, servedBefore);
      return new Reflector(dependencies, resource, target);
    });
    const { signal } = this.#abort;
    // Starts the DNS lookup of the server's name so that the first plan knows the addresses.
    this.#serverAddresses.current();
    this.#running = Promise.all([
      ...this.#reflectors.map((reflector) => reflector.run(signal)),
      followServerVersion(dependencies, (version) => listener.onServerVersion?.(version), signal),
    ]);
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#running;
    this.#dependencies.connection.close();
  }
}
