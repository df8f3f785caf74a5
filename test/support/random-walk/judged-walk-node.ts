import { decodeObject } from "../../../src/api/decode/decode-object.ts";
import { TextPool } from "../../../src/api/decode/flat-text.ts";
import { type Fate, fatesOf } from "../exposure/judge.ts";
import { type Probe, probesOf } from "../exposure/probes.ts";
import { type Operation, operationText } from "../fake-kernel/operations.ts";
import { FakeWalkNode } from "./fake-walk-node.ts";
import type { Walk } from "./walk-step.ts";

/**
 * A walk's node on the fake kernel, on which packets are traced after every change to the kernel. A packet is exposed if
 * a change admits it, and it is stopped when the program has finished the step.
 */
export class JudgedWalkNode extends FakeWalkNode {
  /** The number of changes after which packets were judged. */
  judgedCount = 0;
  /** Packets, each with the change that admitted it. */
  readonly exposures: string[] = [];
  readonly #probes: readonly Probe[];
  #fates: readonly Fate[];
  /** Changes since the last finished step, by the index of the packet that they admitted. */
  readonly #openings = new Map<number, string>();

  constructor(walk: Walk) {
    super();
    this.#probes = probesIn(walk);
    this.#fates = this.#look();
    this.node.kernel.operations.onChanged = (operation) => {
      this.judgedCount += 1;
      const before = this.#fates;
      this.#fates = this.#look(operation);
      for (const [index, { forbidden }] of this.#probes.entries()) {
        const [last, now] = [before[index] as Fate, this.#fates[index] as Fate];
        if (forbidden.includes(now) && !forbidden.includes(last))
          this.#openings.set(index, operationText(operation));
      }
    };
  }

  override run(command: string): boolean {
    const isDone = super.run(command);
    this.#fates = this.#look();
    return isDone;
  }

  /** Lets the program finish. If it is stopped or killed, the step ends when it has started and finished. */
  async noteStep(): Promise<void> {
    if (!this.isRunning) return;
    await this.settle();
    for (const [index, change] of this.#openings) {
      if (this.#fates[index] !== "stopped") continue;
      this.exposures.push(`${this.#probes[index]?.name} after ${change}`);
    }
    this.#openings.clear();
  }

  /** The fate of each packet. Traces only packets that the change may affect. */
  #look(change?: Operation): readonly Fate[] {
    const packets = this.#probes.map(({ packet }) => packet);
    const isTraced = packets.map((packet) => change === undefined || mayAffect(change, packet));
    const traced = packets.filter((_, index) => isTraced[index]);
    const fates = fatesOf(this.node.kernel, traced).values();
    return isTraced.map((is, index) => (is ? fates.next().value : this.#fates[index]) as Fate);
  }
}

function mayAffect(
  { facility, subject }: Operation,
  { family, destination }: Probe["packet"],
): boolean {
  if (facility === "iptables") return subject.startsWith(family);
  const namesAddress = /\d\.\d|::/.test(subject) && !subject.startsWith("FWM ");
  return !namesAddress || subject.includes(destination);
}

/**
 * Packets to all Services in the walk, from clients outside the source ranges, and to ports of Service addresses that no
 * Service uses.
 */
function probesIn({ steps }: Walk): readonly Probe[] {
  const texts = new TextPool();
  const services = steps.flatMap((step) => {
    if (step.kind !== "change" || step.change.object.kind !== "Service") return [];
    const into = { refuse: () => {}, texts };
    return decodeObject("services", step.change.object, into)?.record ?? [];
  });
  const mode = { name: "ipvs" } as const;
  // Each version of a Service has its own source ranges.
  const ofEach = services.flatMap((service) =>
    probesOf(mode, [], [service]).filter(({ forbidden }) => forbidden.includes("endpoint")),
  );
  const toNode = probesOf(mode, [], services).filter(({ forbidden }) => forbidden.length === 1);
  // The fake kernel has no links for tunnels. One client outside all source ranges is enough.
  const probes = [...ofEach, ...toNode].filter(
    ({ mayOpen, packet: { inLink, source } }) =>
      mayOpen !== true && ["", "eth0"].includes(inLink) && !source.includes("207"),
  );
  return [...new Map(probes.map((probe) => [`${probe.name} ${probe.forbidden}`, probe])).values()];
}
