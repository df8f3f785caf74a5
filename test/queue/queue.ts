/** Runs jobs in parallel on all processors, starting with the longest ones. */
import { availableParallelism } from "node:os";
import { kernelsInMemory } from "../lab/kernel-needs.ts";
import type { Durations } from "./durations.ts";
import { hasIdleTime } from "./idle-time.ts";
import type { Job, Outcome } from "./job.ts";
import { readFailures } from "./test-summary.ts";

export interface Run {
  readonly outcomes: readonly Outcome[];
  readonly seconds: number;
  /** For each processor: seconds from the start until it had no more jobs. */
  readonly ends: readonly number[];
}

export const processors: number = Math.min(2, availableParallelism());
/** Jobs without a recorded duration start before all others. */
const unmeasured = Number.MAX_VALUE;
const progressIntervalMs = 15_000;

/**
 * Each processor has three lanes: one starts with CPU-bound jobs, and two with jobs that mostly wait. The first lane
 * takes the next job as soon as it is free, and the others when the processor is mostly idle. Lab kernels that share a
 * busy processor use more CPU time: on one machine, a test needed 41 s alone and 74 s beside another kernel, and tests
 * exceeded their limits. If memory is short, there are fewer lanes.
 */
export async function runJobs(
  jobs: readonly Job[],
  durations: Durations,
  signal: AbortSignal,
  isIdle: typeof hasIdleTime = hasIdleTime,
): Promise<Run> {
  const begin = performance.now();
  const expected = ({ name }: Job): number => durations[name] ?? unmeasured;
  const longestFirst = jobs.toSorted((one, other) => expected(other) - expected(one));
  const working = longestFirst.filter(({ waits }) => !waits);
  const waiting = longestFirst.filter(({ waits }) => waits);
  const outcomes: Outcome[] = [];
  const lane = async (cpu: number, next: () => Job | undefined, index: number): Promise<void> => {
    while (!signal.aborted) {
      const isLast = working.length + waiting.length === 0;
      if (index > 0 && !isLast && !(await isIdle(cpu, index))) continue;
      const job = next();
      if (job === undefined || signal.aborted) return;
      outcomes.push(await runJob(job, cpu, signal));
    }
  };
  const processor = async (cpu: number): Promise<number> => {
    const lanes = [
      () => working.shift() ?? waiting.shift(),
      () => waiting.shift() ?? working.shift(),
      () => waiting.shift() ?? working.shift(),
    ];
    const room = Math.ceil(kernelsInMemory(processors * lanes.length) / processors);
    await Promise.all(lanes.slice(0, room).map((next, index) => lane(cpu, next, index)));
    return secondsSince(begin);
  };
  const ends = await Promise.all(Array.from({ length: processors }, (_, cpu) => processor(cpu)));
  return { outcomes, seconds: secondsSince(begin), ends };
}

async function runJob(job: Job, cpu: number, signal: AbortSignal): Promise<Outcome> {
  const begin = performance.now();
  const progress = setInterval(() => {
    console.log(`  ${job.name}: running, ${secondsSince(begin).toFixed(0)} s`);
  }, progressIntervalMs);
  const result = await job.run(cpu, signal);
  clearInterval(progress);
  const seconds = secondsSince(begin);
  const { cpuSeconds, failure } = result;
  const work = cpuSeconds === undefined ? "" : `, ${cpuSeconds.toFixed(1)} s of a processor`;
  console.log(`  ${job.name}: ${failure ?? "passed"}, ${seconds.toFixed(1)} s${work}`);
  if (failure !== undefined)
    for (const line of readFailures(result.output)) console.log(`    ${line}`);
  return { ...result, name: job.name, seconds };
}

function secondsSince(begin: number): number {
  return (performance.now() - begin) / 1000;
}
