import { lookup } from "node:dns/promises";
import type { IpAddress } from "../../base/ip.ts";
import type { ObjectSource, SourceListener } from "../source.ts";
import { Reflector, type ReflectorDependencies } from "./reflector.ts";
import { type LookUp, ServerAddresses } from "./server-addresses.ts";
import { watchedResources } from "./watched-resources.ts";

export interface ClusterSourceOptions {
  readonly nodeName: string;
  /** Absent: Services without a proxy's name. */
  readonly serviceProxyName?: string | undefined;
}

/** Objects from an API server. Runs through every outage of it; `stop` is what ends it. */
export class ClusterSource implements ObjectSource {
  readonly #dependencies: ReflectorDependencies;
  readonly #options: ClusterSourceOptions;
  readonly #serverAddresses: ServerAddresses;
  readonly #abort = new AbortController();
  #running: Promise<unknown> = Promise.resolve();

  constructor(dependencies: ReflectorDependencies, options: ClusterSourceOptions) {
    this.#dependencies = dependencies;
    this.#options = options;
    const lookUp: LookUp = (hostname) => lookup(hostname, { all: true });
    this.#serverAddresses = new ServerAddresses(dependencies.connection.server, lookUp);
  }

  serverAddresses(): readonly IpAddress[] {
    return this.#serverAddresses.current();
  }

  async start(listener: SourceListener): Promise<void> {
    const { nodeName, serviceProxyName } = this.#options;
    const { nodes, services, endpointslices } = watchedResources(nodeName, serviceProxyName);
    const reflectors = [
      new Reflector(this.#dependencies, nodes, listener),
      new Reflector(this.#dependencies, services, listener),
      new Reflector(this.#dependencies, endpointslices, listener),
    ];
    this.#running = Promise.all(reflectors.map((reflector) => reflector.run(this.#abort.signal)));
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#running;
    this.#dependencies.connection.close();
  }
}
