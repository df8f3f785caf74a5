/** The table of checks, in the order of their rows. */
import type { Outcome } from "../outcome.ts";
import type { Scene } from "../scene.ts";
import { clusterIp, dualStack, nodePorts, sessionAffinity } from "./addresses.ts";
import { draining, restart } from "./changes.ts";
import { health, kernelAsPlanned } from "./daemons.ts";
import { account, events, forbidden } from "./permissions.ts";
import { externalPolicy, hints, internalPolicy } from "./policies.ts";
import { headless } from "./served-services.ts";
import type { TrafficPlan } from "./traffic.ts";

interface NamedCheck {
  readonly name: string;
  /** What holds where it is ok. */
  readonly promise: string;
}

/** What is asked of backends, or why it cannot be: all of these run at once. */
export interface TrafficCheck extends NamedCheck {
  readonly plan: (scene: Scene) => TrafficPlan | Outcome;
}

/** These run one after the other: some change what others see. */
export interface SingleCheck extends NamedCheck {
  readonly run: (scene: Scene) => Promise<Outcome>;
}

export type Check = TrafficCheck | SingleCheck;

export const allChecks: readonly Check[] = [
  { name: "daemons", promise: "kube-ipvs is ready and OK on every node", run: health },
  { name: "cluster-ip", promise: "TCP and UDP reach all backends", plan: clusterIp },
  { name: "node-port", promise: "every node's port reaches a backend", plan: nodePorts },
  { name: "session-affinity", promise: "a client stays with its backend", plan: sessionAffinity },
  { name: "headless", promise: "a headless Service has no virtual server", run: headless },
  {
    name: "internal-policy",
    promise: "Local: backends of the client's node only",
    plan: internalPolicy,
  },
  {
    name: "external-policy",
    promise: "Local: backends of that node only, client address kept",
    plan: externalPolicy,
  },
  { name: "dual-stack", promise: "the second IP family works as the first", plan: dualStack },
  { name: "hints", promise: "endpoints meant for the zone are used", plan: hints },
  { name: "draining", promise: "an endpoint that leaves keeps its connections", run: draining },
  { name: "restart", promise: "a restart of the daemon breaks no connection", run: restart },
  { name: "events", promise: "the daemon's Events arrive", run: events },
  {
    name: "account",
    promise: "the daemon's account may do what it needs, and no more",
    run: account,
  },
  { name: "forbidden", promise: "no request of a daemon was answered with 403", run: forbidden },
  { name: "kernel", promise: "the kernel is as planned on every node", run: kernelAsPlanned },
];

/** The last one, once everything was removed. */
export const cleanUpCheck = "clean-up";
