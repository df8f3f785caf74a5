/** A hostile tenant beside 50 Services of others, in each mode: nobody else is served otherwise, whatever it writes. */
import assert from "node:assert/strict";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { ClusterEvent } from "../../../src/api/event.ts";
import { systemClock as clock } from "../../../src/base/clock.ts";
import { ipFamilies, parseIpAddress } from "../../../src/base/ip.ts";
import { silentLogger as log } from "../../../src/base/log.ts";
import { knownSchedulers } from "../../../src/base/scheduler.ts";
import { loadConfig } from "../../../src/config/load-config.ts";
import { ProxyHealth } from "../../../src/daemon/report/proxy-health.ts";
import { startDaemon } from "../../../src/daemon/start.ts";
import { beginUserspace } from "../../../src/daemon/userspace/begin-userspace.ts";
import type { OpenKernel } from "../../../src/kernel/open-kernel.ts";
import { ClaimAges } from "../../../src/plan/claims/claim-ages.ts";
import type { ClaimMemory } from "../../../src/plan/claims/claim-memory.ts";
import { PortAdmission } from "../../../src/plan/claims/port-admission.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { addressesText, iptablesText, ipvsText } from "../../support/fake-kernel/state-text.ts";
import { MemorySource } from "../../support/memory-source.ts";
import { ip } from "../../support/records.ts";
import { silentMetrics } from "../../support/silent-metrics.ts";
import {
  apiServer,
  apiServerPort,
  gateway,
  nodeAddress,
  nodePorts,
  type TenantStep,
  tenantSteps,
  victimExternalIp,
  victimNodePort,
  victimObjects,
} from "../hostile-tenant.ts";
import type { FuzzTarget, Verdict } from "../target.ts";

type Mode = "ipvs" | "iptables" | "userspace";

/** Of processor time in one turn of the event loop: time that passes says how busy the machine is. */
const longestTurnMs = 200;
const mostMemoryGrowth = 1.2;
const stepsBetweenMemoryChecks = 100;

class TenantSource extends MemorySource {
  servers() {
    return [{ address: parseIpAddress(apiServer) ?? assert.fail(), port: apiServerPort }];
  }
}

/** The longest turn of the event loop since it was asked last. */
class TurnWatch {
  #longestMs = 0;
  #isStopped = false;

  constructor() {
    this.#turn(process.cpuUsage());
  }

  takeLongestMs(): number {
    const longest = this.#longestMs;
    this.#longestMs = 0;
    return longest;
  }

  stop(): void {
    this.#isStopped = true;
  }

  #turn(since: NodeJS.CpuUsage): void {
    if (this.#isStopped) return;
    setImmediate(() => {
      const { user } = process.cpuUsage(since);
      this.#longestMs = Math.max(this.#longestMs, user / 1_000);
      this.#turn(process.cpuUsage());
    });
  }
}

interface Running {
  settled(): Promise<void>;
  stop(): Promise<void>;
}

/** A node in one mode with its victims, and what the tenant did to it. */
class Node {
  readonly mode: Mode;
  readonly source: TenantSource = new TenantSource();
  readonly kernel: FakeKernel = new FakeKernel();
  readonly turns: TurnWatch = new TurnWatch();
  readonly events: ClusterEvent[] = [];
  readonly #tenantObjects = new Map<string, TenantStep["object"]>();
  #running: Running | undefined;
  #victims: readonly string[] = [];
  /** Chains that are the victims' own. */
  #chains: ReadonlySet<string> = new Set();
  #memory = 0;
  #steps = 0;

  constructor(mode: Mode) {
    this.mode = mode;
  }

  async start(): Promise<this> {
    this.source.apply(...victimObjects());
    this.#running = await this.#begin();
    await this.#running.settled();
    this.#victims = this.#linesOfVictims();
    assert.ok(this.#victims.length >= 150, `${this.#victims.length} lines of victims`);
    this.turns.takeLongestMs();
    return this;
  }

  async step({ isGone, object }: TenantStep): Promise<Verdict> {
    const key = `${object.kind} ${object.metadata.name}`;
    if (isGone) {
      this.source.delete(object);
      this.#tenantObjects.delete(key);
    } else {
      this.source.apply(object);
      this.#tenantObjects.set(key, object);
    }
    await this.#running?.settled();
    this.#check();
    this.#steps += 1;
    if (this.#steps % stepsBetweenMemoryChecks === 0) await this.#checkMemory();
    return isGone ? "refused" : "taken";
  }

  async stop(): Promise<void> {
    await this.#running?.stop();
    this.turns.stop();
  }

  #check(): void {
    assert.deepEqual(this.#linesOfVictims(), this.#victims, "victims are served as before");
    const { kernel } = this;
    for (const { address, port, text } of this.#served()) {
      assert.ok(!(address === nodeAddress && nodePorts.includes(port)), `node port: ${text}`);
      assert.ok(!(address === apiServer && port === apiServerPort), `API server: ${text}`);
      assert.ok(!address.startsWith("169.254."), `link-local: ${text}`);
    }
    for (const address of [nodeAddress, gateway, apiServer]) {
      const bound = addressesText(kernel).split("\n");
      assert.ok(!bound.some((line) => line.includes(`${address}/`)), `${address} is bound`);
    }
    const schedulers = kernel.ipvs.peek().map(({ virtualServer }) => virtualServer.scheduler);
    for (const name of schedulers) assert.ok(knownSchedulers.includes(name), name);
    const loads = kernel.operations.log.filter(({ action }) => action === "load");
    assert.deepEqual(
      loads.filter(({ subject }) => /ftp|nosuch|sip|\.\./.test(subject)),
      [],
    );
    const turnMs = this.turns.takeLongestMs();
    assert.ok(turnMs <= longestTurnMs, `the event loop was blocked for ${turnMs} ms`);
    // At most one for each reason and address of an object, and none about anybody else.
    for (const { subject } of this.events.splice(0)) {
      assert.notEqual(subject.namespace, "victim", "an Event about a victim");
    }
    kernel.operations.clear();
  }

  /** Memory without the tenant's objects is what it was before them. */
  async #checkMemory(): Promise<void> {
    this.source.delete(...this.#tenantObjects.values());
    this.#tenantObjects.clear();
    await this.#running?.settled();
    this.turns.takeLongestMs();
    const used = usedMemory();
    this.turns.takeLongestMs();
    if (this.#memory === 0) this.#memory = used;
    const growth = used / this.#memory;
    assert.ok(growth <= mostMemoryGrowth, `memory grew by ${Math.round((growth - 1) * 100)} %`);
  }

  #linesOfVictims(): readonly string[] {
    if (this.mode !== "ipvs") {
      const lines = iptablesText(this.kernel, "IPv4").split("\n");
      if (this.#chains.size === 0) this.#chains = chainsOfVictims(lines);
      // In a cluster of many endpoints rules have no comments: that serves nobody otherwise.
      const present = new Set(lines.map(withoutComment));
      const own = lines.filter((line) => this.#chains.has(chainOf(line))).map(withoutComment);
      const shared = lines.filter(isSharedOfVictim).map(withoutComment);
      return [
        ...new Set([...own, ...shared, ...this.#victims.filter((line) => present.has(line))]),
      ].sort();
    }
    const places = /^-[Aa] -t (?:10\.96\.1\.\d+|203\.0\.113\.\d+|192\.168\.10\.11:300\d\d)[: ]/;
    return ipvsText(this.kernel)
      .split("\n")
      .filter((line) => places.test(line) && isOfVictim(line));
  }

  /** Addresses and TCP ports to which something leads. */
  #served(): readonly { readonly address: string; readonly port: number; readonly text: string }[] {
    if (this.mode === "ipvs") {
      const servers = this.kernel.ipvs.peek().map(({ virtualServer }) => virtualServer);
      return servers
        .filter(({ protocol }) => protocol === "TCP")
        .map(({ address, port }) => ({ address, port, text: `${address}:${port}` }));
    }
    return iptablesText(this.kernel, "IPv4")
      .split("\n")
      .flatMap((text) => {
        const [, address = "", port = ""] =
          / -d ([\d.]+)\/32 -p tcp .*--dport (\d+)/.exec(text) ?? [];
        return address === "" || !text.includes('"tenant/')
          ? []
          : [{ address, port: Number(port), text }];
      });
  }

  async #begin(): Promise<Running> {
    const flags = new Map([
      ["proxy-mode", [this.mode]],
      ["manifests", ["/memory"]],
      ["hostname-override", ["node-1"]],
      ["cluster-cidr", ["10.244.0.0/16"]],
      [this.mode === "iptables" ? "iptables-min-sync-period" : "ipvs-min-sync-period", ["0s"]],
    ]);
    const { config } = loadConfig(flags, { readFile: () => "", hostname: () => "node-1" });
    const { source, kernel } = this;
    const events = { record: (event: ClusterEvent) => void this.events.push(event) };
    const parts = { source, clock, log, events, metrics: silentMetrics, claimMemory: memory() };
    const health = new ProxyHealth(clock, 60_000);
    if (this.mode !== "userspace") {
      const makeListener = () => ({ start: async () => {}, stop: async () => {} });
      return startDaemon({ ...parts, config, health, kernel, makeListener });
    }
    const closable = { close() {} };
    return beginUserspace(config, {
      ...{ ...parts, health },
      openIptables: async () => ({
        ...{ iptables: kernel.iptables, families: ipFamilies },
        openKernel: async () => Object.assign(kernel, closable) as unknown as OpenKernel,
        openConntrack: () => Object.assign(kernel.conntrack, closable),
        openNetwork: () => ({ link: kernel.link, sysctl: kernel.sysctl, ...closable }),
      }),
    });
  }
}

function chainOf(line: string): string {
  return /^-A (\S+)/.exec(line)?.[1] ?? "";
}

function chainsOfVictims(lines: readonly string[]): ReadonlySet<string> {
  const ofVictims = lines.filter((line) => line.includes('"victim/')).map(chainOf);
  return new Set(ofVictims.filter((name) => /-[A-Z2-7]{16}$/.test(name)));
}

function isSharedOfVictim(line: string): boolean {
  return line.includes('"victim/') && !/-[A-Z2-7]{16}$/.test(chainOf(line));
}

function withoutComment(line: string): string {
  return line.replace(/ -m comment --comment (?:"[^"]*"|\S+)/, "");
}

/** A tenant's own cluster IPs, node ports and addresses are not the victims'. */
function isOfVictim(line: string): boolean {
  const [, address = "", port = ""] = /^-[Aa] -t ([\d.]+):(\d+)/.exec(line) ?? [];
  if (address === nodeAddress) return Number(port) >= victimNodePort(0);
  return (
    Number(port) === 80 &&
    (address.startsWith("10.96.1.") || address.startsWith(victimExternalIp(0).slice(0, 10)))
  );
}

function memory(): ClaimMemory {
  const ages = new ClaimAges(undefined, () => clock.nowMs() / 1_000);
  const sockets = nodePorts.map(
    (port) => ({ protocol: "TCP", address: ip("0.0.0.0"), port }) as const,
  );
  return { ages, admission: new PortAdmission(ages, () => sockets), keep() {} };
}

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

function usedMemory(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

function target(mode: Mode): FuzzTarget<TenantStep> {
  let node: Promise<Node> | undefined;
  return {
    name: `tenant-${mode}`,
    isDecoder: false,
    runs: { short: 300, long: 10_000 },
    kept: [],
    inputs: tenantSteps,
    run: async (step) => {
      node ??= new Node(mode).start();
      return (await node).step(step);
    },
    stop: async () => (await node)?.stop(),
  };
}

export const targets: readonly FuzzTarget<TenantStep>[] = (
  ["ipvs", "iptables", "userspace"] as const
).map(target);
