import type { ServiceName } from "../../api/objects.ts";
import type { Clock } from "../../base/clock.ts";
import type { IpAddress, IpFamily } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { type FamilyServiceKey, familyServiceKey } from "../../base/service-name.ts";
import { claimRanks, type Holders } from "../../plan/claims/claim.ts";
import { type HealthPortKey, healthPortKey } from "../../plan/claims/claimed-keys.ts";
import { type ClaimingPlan, PortClaims } from "../../plan/claims/port-claims.ts";
import type { ServicePlan } from "../../plan/planner.ts";
import type { ServicePortPlan } from "../../plan/service-port-plan.ts";
import type { ProxyHealth } from "../report/proxy-health.ts";
import { keepFairly } from "./fair-connections.ts";
import { type HttpAnswer, HttpListener, type HttpListenerOptions } from "./http-listener.ts";

/** A health-check node port of a Service (type LoadBalancer, external policy Local) in one family. */
export interface ServiceHealthCheck extends ClaimingPlan<HealthPortKey> {
  readonly service: ServiceName;
  readonly family: IpFamily;
  readonly port: number;
  /** Number of distinct ready endpoint addresses on this node. */
  readonly localReadyCount: number;
}

/** The part of a Service's plan that describes its health check, in any mode. */
export interface HealthPlan extends Pick<ServicePlan, "service" | "family" | "localReadyCount"> {
  readonly servicePorts: readonly Pick<ServicePortPlan, "servicePort">[];
}

export type Listener = Pick<HttpListener, "start" | "stop">;

export type MakeListener = (options: HttpListenerOptions) => Listener;

export interface ServiceHealthDependencies {
  readonly clock: Clock;
  readonly log: Logger;
  readonly health: ProxyHealth;
  /** The owners of ports that several Services claim, as recorded by an earlier run. */
  readonly held?: Holders;
  /** Defaults to an {@link HttpListener}. */
  readonly makeListener?: MakeListener;
  /** Called when a port cannot be opened, and periodically until it can. */
  readonly onFailure?: (check: ServiceHealthCheck, reason: string) => void;
}

/**
 * Maximum number of connections to all health-check node ports together. All load balancers of a cloud may connect at
 * the same time. Above this number, a new connection closes an older one.
 */
const maxConnections = 2_000;

interface OpenPort {
  readonly listener: Listener;
  /** The check that answers requests to this port. It can change while the listener remains open. */
  check: ServiceHealthCheck;
}

/**
 * Tells load balancers whether this node has endpoints for a Service. Opens a listener for each health-check node port
 * and address. Each IP family has its own sockets and its own count of ready local endpoints. Listeners remain open
 * while their address and port are unchanged. If another process is using a port, keeps trying to open it. If several
 * Services claim a port, the rule for contested addresses determines the owner.
 */
export class ServiceHealthServers {
  readonly #dependencies: ServiceHealthDependencies;
  readonly #makeListener: MakeListener;
  readonly #boundConnections = keepFairly(maxConnections);
  readonly #checks = new Map<FamilyServiceKey, ServiceHealthCheck>();
  readonly #claims: PortClaims<ServiceHealthCheck, HealthPortKey>;
  #open = new Map<string, OpenPort>();
  /** The addresses at the last {@link serve}, as JSON. If they change, listeners must be updated. */
  #servedAddresses = "";
  #isStale = false;

  constructor(dependencies: ServiceHealthDependencies) {
    this.#dependencies = dependencies;
    this.#makeListener =
      dependencies.makeListener ?? ((options) => new HttpListener(dependencies, options));
    this.#claims = new PortClaims(dependencies.held);
  }

  /** The owners of the ports that Services claim. */
  get claims(): Pick<PortClaims<ServiceHealthCheck, HealthPortKey>, "lost" | "contestedHolders"> {
    return this.#claims;
  }

  /** Records a Service plan's health check. Listeners are opened and closed only by {@link serve}. */
  note(plan: HealthPlan): void {
    const key = familyServiceKey(plan.family, plan.service);
    const check = healthCheckOf(plan);
    const before = this.#checks.get(key);
    if (check === undefined) this.#checks.delete(key);
    else this.#checks.set(key, check);
    if (check === undefined && before === undefined) return;
    this.#claims.replace(before, check);
    this.#isStale = true;
  }

  /**
   * Opens and closes listeners so that exactly the recorded checks are served, each on its family's addresses.
   */
  async serve(addresses: ReadonlyMap<IpFamily, readonly IpAddress[]>): Promise<void> {
    const addressText = JSON.stringify([...addresses]);
    if (!this.#isStale && addressText === this.#servedAddresses) return;
    this.#isStale = false;
    this.#servedAddresses = addressText;
    const wanted = new Map<string, { address: IpAddress; check: ServiceHealthCheck }>();
    for (const key of this.#claims.keys()) {
      const check = this.#claims.winner(key)?.plan;
      if (check === undefined) continue;
      for (const address of addresses.get(check.family) ?? []) {
        wanted.set(`${address} ${check.port}`, { address, check });
      }
    }
    this.#claims.settle();
    await this.#closeOthers(wanted);
    for (const [key, { address, check }] of wanted) {
      const open = this.#open.get(key);
      if (open === undefined) await this.#openPort(key, address, check);
      else open.check = check;
    }
  }

  async stop(): Promise<void> {
    await this.#closeOthers(new Map());
  }

  async #closeOthers(wanted: ReadonlyMap<string, unknown>): Promise<void> {
    const closing = [...this.#open].filter(([key]) => !wanted.has(key));
    for (const [key] of closing) this.#open.delete(key);
    await Promise.all(closing.map(([, { listener }]) => listener.stop()));
  }

  async #openPort(key: string, address: IpAddress, check: ServiceHealthCheck): Promise<void> {
    const listener = this.#makeListener({
      name: `health check of ${check.service}`,
      address: { address, port: check.port },
      isFailureFatal: false,
      isSingleFamily: true,
      boundConnections: this.#boundConnections,
      respond: () => this.#answer(open.check),
      onFailure: (reason) => this.#dependencies.onFailure?.(open.check, reason),
    });
    const open: OpenPort = { listener, check };
    this.#open.set(key, open);
    await listener.start();
  }

  /** Answers any path and method. The body is the same as kube-proxy's. */
  #answer({ service, localReadyCount }: ServiceHealthCheck): HttpAnswer {
    const serviceProxyHealthy = this.#dependencies.health.report().isHealthy;
    const [namespace, name] = service.split("/");
    const body = {
      service: { namespace, name },
      localEndpoints: localReadyCount,
      serviceProxyHealthy,
    };
    return {
      status: localReadyCount > 0 && serviceProxyHealthy ? 200 : 503,
      headers: {
        "Content-Type": "application/json",
        "X-Content-Type-Options": "nosniff",
        "X-Load-Balancing-Endpoint-Weight": String(localReadyCount),
      },
      body: `${JSON.stringify(body, undefined, "\t")}\n`,
    };
  }
}

function healthCheckOf(plan: HealthPlan): ServiceHealthCheck | undefined {
  const { service, family, servicePorts, localReadyCount } = plan;
  const [first] = servicePorts;
  if (first === undefined || first.servicePort.healthCheckNodePort === 0) return undefined;
  const { servicePort } = first;
  const port = servicePort.healthCheckNodePort;
  const claims = [{ key: healthPortKey(port, family), rank: claimRanks["node-port"] }];
  return { service, family, port, localReadyCount, servicePort, claims };
}
