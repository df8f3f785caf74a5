import type { ObjectSource, SourceListener } from "../source.ts";
import { Reflector, type ReflectorDependencies } from "./reflector.ts";
import { watchedResources } from "./watched-resources.ts";

/** Objects from an API server. Runs through every outage of it; `stop` is what ends it. */
export class ClusterSource implements ObjectSource {
  readonly #dependencies: ReflectorDependencies;
  readonly #nodeName: string;
  readonly #abort = new AbortController();
  #running: Promise<unknown> = Promise.resolve();

  constructor(dependencies: ReflectorDependencies, options: { readonly nodeName: string }) {
    this.#dependencies = dependencies;
    this.#nodeName = options.nodeName;
  }

  async start(listener: SourceListener): Promise<void> {
    const { nodes, services, endpointslices } = watchedResources(this.#nodeName);
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
