/**
 * The steps of a random walk, as fast-check arbitraries. They are plain data, so a walk can be stored as JSON.
 */
import fc from "fast-check";
import type { Config } from "../../../src/config/config.ts";
import type { VirtualAddresses } from "../../../src/state/dummy-link.ts";
import { type ClusterChange, clusterChanges } from "../random-cluster/changes.ts";
import { abilityObjects } from "./ability-objects.ts";
import { type Damage, damages } from "./damage.ts";

/** The configuration settings that walks change. Others are the same in all walks. */
export interface WalkSettings {
  readonly scheduler: string;
  readonly excludeCIDRs: readonly string[];
  readonly nodePortAddresses: readonly string[];
  readonly unboundAddresses: readonly string[];
  readonly masqueradeNodeToLocal: boolean;
  readonly weightRequestPeriod: string;
  /** Applies after a restart only, like the next settings. */
  readonly mode: Config["mode"];
  /** Iptables and userspace mode always use iptables. */
  readonly rules: "iptables" | "nftables";
  readonly tunnelForwarding: boolean;
  readonly virtualAddresses: VirtualAddresses;
}

/** The settings at the beginning of every walk. */
export const startSettings: WalkSettings = {
  scheduler: "rr",
  excludeCIDRs: [],
  nodePortAddresses: [],
  unboundAddresses: [],
  masqueradeNodeToLocal: false,
  weightRequestPeriod: "0s",
  mode: "ipvs",
  rules: "iptables",
  tunnelForwarding: true,
  virtualAddresses: "addresses",
};

export type WalkStep =
  /** A cluster change, which may happen while the program is stopped. */
  | { readonly kind: "change"; readonly change: ClusterChange }
  /** Starts the program if it is stopped, waits until nothing changes, then compares the kernel state. */
  | { readonly kind: "settle" }
  | { readonly kind: "stop" | "start" }
  /** Kills the program before its n-th subsequent write, if that is supported. */
  | { readonly kind: "kill"; readonly nth: number }
  | { readonly kind: "node-address"; readonly verb: "add" | "del"; readonly nth: number }
  | { readonly kind: "damage"; readonly damage: Damage }
  /** Another program creates a virtual server, or removes its own. */
  | { readonly kind: "foreign"; readonly verb: "add" | "remove"; readonly nth: number }
  | { readonly kind: "configure"; readonly settings: Partial<WalkSettings> };

export interface Walk {
  readonly steps: readonly WalkStep[];
}

/** Number of random steps. Before them, each walk turns the abilities on and creates Services that use them. */
export const walkLength = 30;

const nth = fc.nat(999);

const configurations: fc.Arbitrary<Partial<WalkSettings>> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ tunnelForwarding: fc.boolean() }) },
  {
    weight: 3,
    arbitrary: fc.record({
      virtualAddresses: fc.constantFrom<VirtualAddresses>("addresses", "routes"),
    }),
  },
  { weight: 3, arbitrary: fc.record({ weightRequestPeriod: fc.constantFrom("0s", "1s", "20s") }) },
  {
    weight: 8,
    arbitrary: fc.record({ rules: fc.constantFrom<WalkSettings["rules"]>("iptables", "nftables") }),
  },
  fc.record({ scheduler: fc.constantFrom("rr", "wlc", "wrr", "sh") }),
  fc.record({
    excludeCIDRs: fc.constantFrom<readonly string[]>(
      [],
      ["10.96.0.8/29"],
      ["203.0.113.0/24", "fd00:96::/64"],
      ["192.168.10.0/24", "172.16.0.0/16"],
    ),
  }),
  fc.record({
    nodePortAddresses: fc.constantFrom<readonly string[]>(
      [],
      ["primary"],
      ["192.168.10.0/24", "fd00:10::/64"],
      ["172.16.0.0/16"],
    ),
  }),
  fc.record({
    unboundAddresses: fc.constantFrom<readonly string[]>(
      [],
      ["10.96.0.0/16", "203.0.113.1/32"],
      ["fd00:96::/64", "198.51.100.0/24", "2001:db8::1/128"],
    ),
  }),
  fc.record({ masqueradeNodeToLocal: fc.boolean() }),
);

const steps: fc.Arbitrary<WalkStep> = fc.oneof(
  {
    weight: 30,
    arbitrary: clusterChanges.map((change): WalkStep => ({ kind: "change", change })),
  },
  { weight: 3, arbitrary: fc.constant<WalkStep>({ kind: "settle" }) },
  { weight: 3, arbitrary: fc.constant<WalkStep>({ kind: "stop" }) },
  { weight: 3, arbitrary: fc.constant<WalkStep>({ kind: "start" }) },
  {
    weight: 2,
    arbitrary: fc
      .integer({ min: 1, max: 40 })
      .map((count): WalkStep => ({ kind: "kill", nth: count })),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("node-address" as const),
      verb: fc.constantFrom("add" as const, "del" as const),
      nth,
    }),
  },
  { weight: 8, arbitrary: damages.map((damage): WalkStep => ({ kind: "damage", damage })) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("foreign" as const),
      verb: fc.constantFrom("add" as const, "add" as const, "remove" as const),
      nth,
    }),
  },
  {
    weight: 5,
    arbitrary: configurations.map((settings): WalkStep => ({ kind: "configure", settings })),
  },
  {
    weight: 4,
    arbitrary: fc
      .constantFrom<WalkSettings["mode"]>("ipvs", "ipvs", "iptables", "userspace")
      .map((mode): WalkStep => ({ kind: "configure", settings: { mode } })),
  },
);

/** The settings of all abilities. */
const abilities: fc.Arbitrary<WalkStep> = fc
  .record({
    rules: fc.constantFrom<WalkSettings["rules"]>("iptables", "nftables"),
    weightRequestPeriod: fc.constantFrom("0s", "1s", "1s", "20s"),
    virtualAddresses: fc.constantFrom<VirtualAddresses>("addresses", "routes"),
    unboundAddresses: fc.constantFrom<readonly string[]>([], ["203.0.113.1/32", "fd00:96::/64"]),
  })
  .map((settings) => ({ kind: "configure", settings }));

const uses = abilityObjects.map((object): WalkStep => {
  return { kind: "change", change: { kind: "apply", object } };
});

export const walks: fc.Arbitrary<Walk> = fc.noBias(
  fc
    .tuple(abilities, fc.array(steps, { minLength: walkLength, maxLength: walkLength }))
    .map(([settings, others]): Walk => ({ steps: [settings, ...uses, ...others] })),
);

/** Number of steps after which {@link walkIn} changes the mode. */
const stepsPerMode = 6;

/** Returns the same walk in these modes, which take turns. */
export function walkIn(modes: readonly WalkSettings["mode"][], { steps }: Walk): Walk {
  const others = steps.filter(
    (step) => step.kind !== "configure" || step.settings.mode === undefined,
  );
  return {
    steps: others.flatMap((step, index): readonly WalkStep[] => {
      const mode = modes[Math.floor(index / stepsPerMode) % modes.length];
      if (mode === undefined || index % stepsPerMode > 0) return [step];
      return [{ kind: "configure", settings: { mode } }, step];
    }),
  };
}

/** Returns the walk with this number, which is always the same. */
export function walkOf(seed: number): Walk {
  const [walk] = fc.sample(walks, { seed, numRuns: 1 });
  if (walk === undefined) throw new Error(`No walk for seed ${seed}`);
  return walk;
}
