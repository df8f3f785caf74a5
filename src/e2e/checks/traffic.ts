/**
 * Checks that are questions to backends. All of them are asked together, one command for each place that asks, and those
 * without the right answers are asked again.
 */
import { judged, type Outcome } from "../outcome.ts";
import type { Answers, Question } from "../pod/conversation.ts";
import { askFrom, type Scene, type Vantage } from "../scene.ts";

/** A question, and what is wrong with its answers. */
export interface Probe {
  readonly vantage: Vantage;
  readonly question: Question;
  readonly problemsOf: (answers: Answers) => readonly string[];
}

export interface TrafficPlan {
  readonly probes: readonly Probe[];
  /** What is wrong with all answers together. */
  readonly problemsOfAll?: (answers: readonly Answers[]) => readonly string[];
  /** What was seen where nothing is wrong. */
  readonly detail: string;
}

/** What became of each plan, by its name. */
export async function runTraffic(
  scene: Scene,
  plans: ReadonlyMap<string, TrafficPlan>,
): Promise<ReadonlyMap<string, Outcome>> {
  const problems = new Map<string, readonly string[]>([...plans.keys()].map((name) => [name, []]));
  let open = [...plans];
  await scene.patience.problemsOf(async () => {
    const answers = await askAll(
      scene,
      open.flatMap(([, { probes }]) => probes),
    );
    for (const [name, plan] of open) problems.set(name, planProblems(plan, answers));
    open = open.filter(([name]) => problems.get(name)?.length !== 0);
    return open.map(([name]) => name);
  });
  return new Map(
    [...plans].map(([name, { detail }]) => [name, judged(problems.get(name) ?? [], detail)]),
  );
}

function planProblems(
  { probes, problemsOfAll }: TrafficPlan,
  answers: ReadonlyMap<Probe, Answers>,
): readonly string[] {
  const own = probes.map((probe) => answers.get(probe) ?? nobody);
  return [
    ...probes.flatMap((probe, index) => probe.problemsOf(own[index] ?? nobody)),
    ...(problemsOfAll?.(own) ?? []),
  ];
}

const nobody: Answers = { answers: [], errors: [] };

async function askAll(
  scene: Scene,
  probes: readonly Probe[],
): Promise<ReadonlyMap<Probe, Answers>> {
  const byPlace = Map.groupBy(probes, ({ vantage: { label } }) => label);
  const answered = await Promise.all(
    [...byPlace.values()].map(async (own) => {
      const [first] = own;
      if (first === undefined) return [];
      const all = await askFrom(
        scene,
        first.vantage,
        own.map(({ question }) => question),
      );
      return own.map((probe, index) => [probe, all[index] ?? nobody] as const);
    }),
  );
  return new Map(answered.flat());
}
