import type { Clock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import { allChecks, type Check, cleanUpCheck } from "./checks/all-checks.ts";
import { servedServices } from "./checks/served-services.ts";
import { runTraffic, type TrafficPlan } from "./checks/traffic.ts";
import { judged, type NamedOutcome, notApplicable, type Outcome } from "./outcome.ts";
import { Patience } from "./patience.ts";
import { prepare, type RunContext, removeAll } from "./prepare.ts";
import type { Scene } from "./scene.ts";

const preparationMs = 300_000;

export interface RunDependencies extends Omit<RunContext, "patience" | "checkPatience"> {
  readonly clock: Clock;
  /** Breaks the run off; what was applied is removed all the same. */
  readonly signal: AbortSignal;
}

/**
 * Runs all checks and removes everything, however they end. Rejects where the cluster cannot be tested, where the run
 * was broken off, or where something could not be removed.
 */
export async function runChecks(given: RunDependencies): Promise<readonly NamedOutcome[]> {
  const { clock, options, signal } = given;
  const context: RunContext = {
    ...given,
    patience: new Patience(clock, signal, preparationMs),
    checkPatience: new Patience(clock, signal, options.patienceMs),
  };
  // Not to be broken off.
  const patience = new Patience(clock, new AbortController().signal, preparationMs);
  const removal = { ...context, patience };
  try {
    const scene = await prepare(context);
    const outcomes = await outcomesOf(scene, context);
    context.progress("Removing everything");
    await removeAll(removal);
    const last = await attempt(() => nothingLeft(scene));
    return [...outcomes, { check: cleanUpCheck, ...last }];
  } catch (error) {
    await removeAll(removal).catch((removing: unknown) => {
      throw new Error(`${errorText(error)}; then ${errorText(removing)}`, { cause: error });
    });
    throw error;
  }
}

async function outcomesOf(
  scene: Scene,
  { options, progress, patience }: RunContext,
): Promise<readonly NamedOutcome[]> {
  const outcomes: NamedOutcome[] = [];
  const checks = allChecks.filter(({ name }) => !options.skipped.has(name));
  let traffic: ReadonlyMap<string, Outcome> | undefined;
  for (const check of allChecks) {
    const outcome = await attempt(async () => {
      if (!checks.includes(check)) return notApplicable("left out by --skip");
      const present = withDaemons(scene, await scene.listDaemons());
      if ("run" in check) return await check.run(present);
      traffic ??= await trafficOutcomes(present, checks);
      return traffic.get(check.name) ?? notApplicable("was not asked");
    });
    progress(`${check.name}: ${outcome.result}`);
    outcomes.push({ check: check.name, ...outcome });
    await patience.pause(0);
  }
  return outcomes;
}

async function trafficOutcomes(
  scene: Scene,
  checks: readonly Check[],
): Promise<ReadonlyMap<string, Outcome>> {
  const plans = new Map<string, TrafficPlan>();
  const outcomes = new Map<string, Outcome>();
  for (const check of checks) {
    if (!("plan" in check)) continue;
    const planned = check.plan(scene);
    if ("result" in planned) outcomes.set(check.name, planned);
    else plans.set(check.name, planned);
  }
  return new Map([...outcomes, ...(await runTraffic(scene, plans))]);
}

/** A restart gives a node another pod. */
function withDaemons(scene: Scene, daemons: Scene["daemons"]): Scene {
  const byNode = new Map(daemons.map((daemon) => [daemon.nodeName, daemon]));
  const [first, ...rest] = scene.nodes.map((node) => {
    return { ...node, daemon: byNode.get(node.name) ?? node.daemon };
  });
  return { ...scene, daemons, nodes: [first ?? scene.nodes[0], ...rest] };
}

/** What cannot be tried has failed, with the reason. */
async function attempt(run: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await run();
  } catch (error) {
    return { result: "failed", detail: errorText(error) };
  }
}

async function nothingLeft(scene: Scene): Promise<Outcome> {
  const problems = await scene.patience.problemsOfEach(scene.listDaemons, async (daemon) => {
    const served = await servedServices(scene, daemon, scene.namespace);
    return served.size === 0 ? [] : [`${daemon.nodeName} still serves ${[...served].join(", ")}`];
  });
  return judged(
    problems,
    `namespace ${scene.namespace} is gone, and no node serves anything of it`,
  );
}
