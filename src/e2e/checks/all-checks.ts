/** The table of checks, in the order of their rows. */
import type { Outcome } from "../outcome.ts";
import type { Scene } from "../scene.ts";
import { clusterIp, dualStack, nodePorts, sessionAffinity } from "./addresses.ts";
import { draining, restart } from "./changes.ts";
import { headless, health, kernelAsPlanned, nothingLeft } from "./daemons.ts";
import { account, events, forbidden } from "./permissions.ts";
import { externalPolicy, hints, internalPolicy } from "./policies.ts";

export interface Check {
  readonly name: string;
  /** A statement that is true if the check is ok. */
  readonly promise: string;
  readonly run: (scene: Scene) => Promise<Outcome>;
}

/** The checks in a group run at the same time. A check that affects others has its own group. */
export const checkGroups: readonly (readonly Check[])[] = [
  [
    { name: "daemons", promise: "kube-ipvs is ready and OK on every node", run: health },
    { name: "cluster-ip", promise: "TCP and UDP reach all backends", run: clusterIp },
    { name: "node-port", promise: "every node's port reaches a backend", run: nodePorts },
    { name: "session-affinity", promise: "a client reaches one backend", run: sessionAffinity },
    { name: "headless", promise: "a headless Service has no virtual server", run: headless },
    {
      name: "internal-policy",
      promise: "with Local, only backends on the client's node answer",
      run: internalPolicy,
    },
    {
      name: "external-policy",
      promise: "with Local, only that node's backends answer, and see the client",
      run: externalPolicy,
    },
    {
      name: "dual-stack",
      promise: "TCP and UDP reach backends over the second IP family",
      run: dualStack,
    },
    { name: "hints", promise: "only endpoints for the node's zone are used", run: hints },
  ],
  [{ name: "draining", promise: "a removed endpoint keeps its open connections", run: draining }],
  [{ name: "restart", promise: "a restart of the daemon breaks no connection", run: restart }],
  [{ name: "events", promise: "the daemon's Events arrive", run: events }],
  [
    {
      name: "account",
      promise: "the daemon's account can do what it needs, and nothing else that is checked",
      run: account,
    },
    { name: "forbidden", promise: "no request of a daemon was answered with 403", run: forbidden },
    {
      name: "kernel",
      promise: "kube-ipvs plan finds nothing to change on any node",
      run: kernelAsPlanned,
    },
  ],
];

/** Runs after the test has removed everything. */
export const cleanUp: Check = {
  name: "clean-up",
  promise: "all objects of the test are gone",
  run: nothingLeft,
};

export const allChecks: readonly Check[] = checkGroups.flat();
