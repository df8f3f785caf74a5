/**
 * Runs a walk's steps on a node. At every settle step and at the end, compares the kernel state with the result of a
 * fresh start on an empty kernel with the same objects.
 */
import assert from "node:assert/strict";
import type { AskWeight } from "../../../src/daemon/weights/ask-weight.ts";
import type { Holders } from "../../../src/plan/claims/claim.ts";
import {
  compareStates,
  type Difference,
  differenceText,
  type KernelState,
} from "../../golden/kernel-state.ts";
import type { NamedObject } from "../memory-source.ts";
import { damageCommand, ownershipKinds, placeOf } from "./damage.ts";
import { type ForeignServer, foreignServers, isClaimed } from "./foreign-server.ts";
import { ObjectBook } from "./object-book.ts";
import { planFromScratch } from "./plan-from-scratch.ts";
import { startSettings, type WalkSettings, type WalkStep } from "./walk-step.ts";

/** A node with the daemon, on a fake kernel or on a real one. */
export interface WalkNode {
  readonly isRunning: boolean;
  /** How endpoints answer requests for their weights. */
  readonly askWeight: AskWeight;
  apply(object: NamedObject): void;
  delete(object: NamedObject): void;
  /** Applies the settings from now on, also after restarts. A running daemon reloads them. */
  configure(settings: WalkSettings): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
  kill(nth: number): Promise<void>;
  /** Runs an operator's command and returns whether it succeeded. */
  run(command: string): boolean;
  state(): Promise<KernelState>;
  /** Waits until the daemon has verified everything. */
  settle(): Promise<void>;
  /**
   * Waits for the expected state, given the owners of contested addresses, for at most a minute and a half. Returns the
   * last state.
   */
  settleAs(expected: (held: Holders) => Promise<KernelState>): Promise<KernelState>;
  /** Called after each step. */
  noteStep?(): Promise<void>;
}

/** Node addresses that are added and removed. Only the first exists at the beginning. */
const togglingAddresses = [
  "172.16.5.11/24 dev eth1",
  "198.51.100.1/24 dev eth1",
  "192.168.10.12/24 dev eth0",
  "10.96.0.11/32 dev eth1",
];
/** Settings that apply after a restart only. */
const restartSettings = ["mode", "rules", "tunnelForwarding", "virtualAddresses"] as const;
/** Maximum number of repeated repairs. With more, repairs would back off for longer than the walk. */
const mostRepeats = 3;

export class Walker {
  readonly #node: WalkNode;
  readonly #objects = new ObjectBook();
  #settings = startSettings;
  readonly #foreign: ForeignServer[] = [];
  readonly #nodeAddresses = new Set(togglingAddresses.slice(0, 1));
  readonly #repeats = new Map<string, number>();
  /** Whether earlier damage makes ownership harder to determine. Only one such damage exists at a time. */
  #isOwnershipShaken = false;
  /** Whether the record may lack objects that a killed program had just created. Reset at the next settle step. */
  #isRecordOld = false;
  /**
   * Whether an address was removed, possibly unnoticed, so that the program may create a node port's virtual server
   * there.
   */
  #isAddressGone = false;
  /** The executed commands and steps, for a failure message. */
  readonly #history: string[] = [];
  readonly #beganMs = performance.now();

  constructor(node: WalkNode) {
    this.#node = node;
  }

  get history(): string {
    return this.#history.join("\n");
  }

  async begin(): Promise<void> {
    for (const object of this.#objects.all()) this.#node.apply(object);
    await this.#node.configure(this.#settings);
    await this.#node.start();
  }

  async take(step: WalkStep): Promise<void> {
    switch (step.kind) {
      case "change":
        return this.#change(step.change);
      case "settle":
        return this.#settle();
      case "start":
        return this.#start();
      case "stop":
        if (this.#node.isRunning) await this.#note("stop", () => this.#node.stop());
        return;
      case "kill":
        if (!this.#node.isRunning || this.#isAddressGone || this.#isOwnershipShaken) return;
        this.#isRecordOld = true;
        await this.#note(`kill ${step.nth}`, () => this.#node.kill(step.nth));
        return;
      case "node-address":
        return this.#toggleAddress(step);
      case "damage":
        return this.#damage(step);
      case "foreign":
        if (step.verb === "add") await this.#addForeign(step.nth);
        else this.#removeForeign(step.nth);
        return;
      case "configure":
        return this.#configure(step.settings);
    }
  }

  /**
   * Removes all excluded networks from the configuration, so all leftovers must be removed. Then restarts the program,
   * which must change nothing.
   */
  async end(): Promise<void> {
    await this.#configure({ excludeCIDRs: [] });
    await this.#settle();
    await this.#note("restart", async () => {
      await this.#node.stop();
      await this.#node.start();
    });
    await this.#settle();
  }

  async #start(): Promise<void> {
    if (!this.#node.isRunning) await this.#note("start", () => this.#node.start());
  }

  #change({ kind, object }: Extract<WalkStep, { kind: "change" }>["change"]): void {
    this.#log(`${kind} ${JSON.stringify(object)}`);
    this.#objects[kind](object);
    this.#node[kind](object);
  }

  /**
   * Waits until the program has applied everything, and compares the node unless networks are excluded. Leftovers in
   * excluded networks cannot be compared.
   */
  async #settle(): Promise<void> {
    await this.#start();
    const isComparable = this.#settings.excludeCIDRs.length === 0;
    this.#log(isComparable ? "settle and compare" : "settle");
    const expected = isComparable
      ? await this.#node.settleAs((held) => this.#expected(held))
      : await this.#node.settle();
    this.#isRecordOld = false;
    this.#isAddressGone = false;
    if (expected === undefined) return;
    const differences = differencesIn(expected, await this.#node.state());
    assert.equal(differences.map(differenceText).join("\n"), "");
    this.#isOwnershipShaken = false;
  }

  #expected(held: Holders): Promise<KernelState> {
    return planFromScratch({
      held,
      objects: this.#objects.all(),
      settings: this.#settings,
      askWeight: this.#node.askWeight,
      commands: [
        ...(this.#nodeAddresses.has(togglingAddresses[0] ?? "")
          ? []
          : [`ip address del ${togglingAddresses[0]}`]),
        ...[...this.#nodeAddresses]
          .filter((address) => address !== togglingAddresses[0])
          .map((address) => `ip address add ${address}`),
        ...this.#foreign.flatMap(({ commands }) => commands),
      ],
    });
  }

  #toggleAddress({ verb, nth }: Extract<WalkStep, { kind: "node-address" }>): void {
    const address = togglingAddresses[nth % togglingAddresses.length] ?? "";
    if (this.#nodeAddresses.has(address) === (verb === "add")) return;
    if (verb === "del" && this.#isRecordOld) return;
    this.#run(`ip address ${verb} ${address}`);
    this.#isAddressGone ||= verb === "del";
    if (verb === "add") this.#nodeAddresses.add(address);
    else this.#nodeAddresses.delete(address);
  }

  async #damage({ damage }: Extract<WalkStep, { kind: "damage" }>): Promise<void> {
    // If one of several entries is deleted, only the process that wrote it knows who owns the virtual server.
    if (damage.kind === "remove-entry") {
      if (!this.#node.isRunning) return;
      await this.#settle();
    }
    const state = await this.#node.state();
    const command = damageCommand(damage, state, (line) => !this.#isForeign(line));
    if (command === undefined) return;
    // An address with only a port range is in none of the address sets.
    const shakes = ownershipKinds.has(damage.kind) || command.startsWith("ipvsadm -D -f ");
    const isUnsure = this.#isOwnershipShaken || this.#isRecordOld || this.#foreign.length > 0;
    if (shakes && isUnsure) return;
    const repeats = (this.#repeats.get(command) ?? 0) + 1;
    this.#repeats.set(command, repeats);
    if (repeats > mostRepeats) return;
    if (!this.#run(command)) return;
    this.#isOwnershipShaken ||= shakes;
    if (damage.kind === "remove-entry") await this.#settle();
  }

  /** Adds a virtual server only if its owner is certain: no write is pending, and none of kube-ipvs's sets names it. */
  async #addForeign(nth: number): Promise<void> {
    const server = foreignServers[nth % foreignServers.length];
    if (server === undefined || this.#isOwnershipShaken || this.#foreign.includes(server)) return;
    if (this.#node.isRunning) await this.#settle();
    const state = await this.#node.state();
    if (isClaimed(server, state)) return;
    const [create = "", ...others] = server.commands;
    if (!this.#run(create)) return;
    for (const command of others) this.#run(command);
    this.#foreign.push(server);
  }

  #removeForeign(nth: number): void {
    const at = nth % Math.max(1, this.#foreign.length);
    const [server] = this.#foreign.splice(at, 1);
    if (server !== undefined) this.#run(`ipvsadm -D ${server.place}`);
  }

  async #configure(settings: Partial<WalkSettings>): Promise<void> {
    const before = this.#settings;
    this.#settings = { ...before, ...settings };
    // In other modes than IPVS mode, leftovers are removed at startup only.
    const isExclusionChanged =
      this.#settings.mode !== "ipvs" && settings.excludeCIDRs !== undefined;
    const isChanged =
      isExclusionChanged || restartSettings.some((name) => this.#settings[name] !== before[name]);
    const isRestarted = this.#node.isRunning && isChanged;
    if (isRestarted) await this.#note("stop", () => this.#node.stop());
    await this.#note(`configure ${JSON.stringify(settings)}`, () =>
      this.#node.configure(this.#settings),
    );
    if (isRestarted) await this.#start();
  }

  #isForeign(line: string): boolean {
    return this.#foreign.some(({ place }) => placeOf(line) === place);
  }

  #run(command: string): boolean {
    const isDone = this.#node.run(command);
    this.#log(`${isDone ? "run" : "run, refused:"} ${command}`);
    return isDone;
  }

  /** Adds the number of seconds since the start. */
  #log(text: string): void {
    const seconds = (performance.now() - this.#beganMs) / 1_000;
    this.#history.push(`${seconds.toFixed(2).padStart(7)} ${text}`);
  }

  async #note(text: string, work: () => Promise<void>): Promise<void> {
    this.#log(text);
    await work();
  }
}

/**
 * Compares the state that both kernels have. The real kernel's state has no answers to load balancers. Kubelet's chain,
 * which iptables mode creates if it is missing, is never removed.
 */
export function differencesIn(expected: KernelState, actual: KernelState): readonly Difference[] {
  const common = Object.entries(expected).filter(([file]) => file in actual);
  return compareStates(Object.fromEntries(common), actual).filter(
    ({ side, line }) => side === "missing" || !line.includes("KUBE-FIREWALL"),
  );
}
