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
    {
      name: "session-affinity",
      promise: "a client always reaches the same backend",
      run: sessionAffinity,
    },
    { name: "headless", promise: "a headless Service has no virtual server", run: headless },
    {
      name: "internal-policy",
      promise: "with policy Local, only the node's own backends answer",
      run: internalPolicy,
    },
    {
      name: "external-policy",
      promise: "with policy Local, backends see the client's own address",
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
  [{ name: "restart", promise: "restarting the daemon breaks no connections", run: restart }],
  [{ name: "events", promise: "the daemon's Events reach the API server", run: events }],
  [
    {
      name: "account",
      promise: "the daemon's account has only the permissions it needs",
      run: account,
    },
    {
      name: "forbidden",
      promise: "the API server answered no daemon request with 403",
      run: forbidden,
    },
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
  promise: "all of the test's objects are deleted",
  run: nothingLeft,
};

export const allChecks: readonly Check[] = checkGroups.flat();
