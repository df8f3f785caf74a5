import type { AskWeight } from "../../../src/daemon/weights/ask-weight.ts";
import type { Holders } from "../../../src/plan/claims/claim.ts";
import type { KernelState } from "../../golden/kernel-state.ts";
import { runCommand } from "../fake-kernel/operator-commands.ts";
import { FakeNode } from "../fake-node.ts";
import type { NamedObject } from "../memory-source.ts";
import { flagsOf, otherNode, quietMs } from "./plan-from-scratch.ts";
import type { WalkSettings } from "./walk-step.ts";
import type { WalkNode } from "./walker.ts";

/** A walk's node on the fake kernel. The test advances the clock, so nothing waits. */
export class FakeWalkNode implements WalkNode {
  /** The same weight in every request, and none from some endpoints. */
  readonly askWeight: AskWeight = async ({ address }) => {
    const last = Number.parseInt(address.at(-1) ?? "", 16);
    return last === 2 ? { problem: "ECONNREFUSED" } : { weight: 10 * last };
  };
  protected readonly node: FakeNode = new FakeNode({}, { askWeight: this.askWeight });

  get isRunning(): boolean {
    return this.node.isRunning;
  }

  apply(object: NamedObject): void {
    this.node.source.apply(object);
  }

  delete(object: NamedObject): void {
    this.node.source.delete(object);
  }

  configure(settings: WalkSettings): Promise<void> {
    return this.node.reconfigure(flagsOf(settings));
  }

  async start(): Promise<void> {
    await this.node.start();
    this.node.source.reportNodes(otherNode);
  }

  stop(): Promise<void> {
    return this.node.stop();
  }

  kill(nth: number): Promise<void> {
    return this.node.crash(nth);
  }

  run(command: string): boolean {
    return runCommand(this.node.kernel, command);
  }

  state(): Promise<KernelState> {
    return this.node.state();
  }

  async settle(): Promise<void> {
    await this.node.settle();
    await this.node.wait(quietMs);
    await this.node.settle();
  }

  async settleAs(expected: (held: Holders) => Promise<KernelState>): Promise<KernelState> {
    await this.settle();
    return expected(this.node.holders());
  }
}
