import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { listSuites } from "../../lab/suites.ts";
import { commands } from "../../queue/commands.ts";
import { readDurations, updatedDurations } from "../../queue/durations.ts";
import type { Job, Outcome } from "../../queue/job.ts";
import { processors, runJobs } from "../../queue/queue.ts";

const never = new AbortController().signal;
const idle = async (): Promise<boolean> => true;

/** Jobs that record their names when they start. */
class Starts {
  readonly names: string[] = [];
  readonly cpus = new Set<number>();

  job(name: string, options: Partial<Job> & { readonly failure?: string } = {}): Job {
    const { waits = false, failure } = options;
    const run: Job["run"] = async (cpu) => {
      this.names.push(name);
      this.cpus.add(cpu);
      await pause(20);
      return { cpuSeconds: 1, output: "", summary: undefined, failure };
    };
    return { name, waits, isNightly: false, run };
  }
}

describe("the queue", () => {
  it("starts jobs without a measured duration first, then the longest ones", async () => {
    const starts = new Starts();
    const names = Array.from({ length: 12 }, (_, index) => `job-${index}`);
    const durations = Object.fromEntries(names.map((name, index) => [name, index]));
    const jobs = ["new", ...names].map((name) => starts.job(name));
    const { outcomes } = await runJobs(jobs, durations, never, idle);
    assert.deepEqual(starts.names, ["new", ...names.toReversed()]);
    assert.equal(outcomes.length, jobs.length);
    assert.equal(starts.cpus.size, processors);
  });

  it("starts waiting jobs together with jobs that use CPU time", async () => {
    const starts = new Starts();
    const jobs = ["a", "b", "c", "d", "e", "f"].map((name) =>
      starts.job(name, { waits: name > "c" }),
    );
    await runJobs(jobs, { a: 6, b: 5, c: 4, d: 3, e: 2, f: 1 }, never, idle);
    const first = ["a", "b"].slice(0, processors);
    assert.deepEqual(starts.names.slice(0, processors + 1), [...first, "d"]);
  });

  it("runs one job at a time on a busy processor", async () => {
    let [running, most] = [0, 0];
    const run: Job["run"] = async () => {
      most = Math.max(most, ++running);
      await pause(20);
      running -= 1;
      return { cpuSeconds: 1, output: "", summary: undefined, failure: undefined };
    };
    const jobs = Array.from({ length: 6 }, (_, index) => ({
      name: `${index}`,
      waits: true,
      isNightly: false,
      run,
    }));
    const { outcomes } = await runJobs(jobs, {}, never, () => pause(1, false));
    assert.deepEqual([outcomes.length, most], [6, processors]);
  });

  it("runs the other jobs after a failed one", async () => {
    const starts = new Starts();
    const jobs = [starts.job("a", { failure: "FAILED" }), starts.job("b")];
    const { outcomes } = await runJobs(jobs, {}, never, idle);
    assert.deepEqual(outcomes.map(({ name, failure }) => [name, failure]).toSorted(), [
      ["a", "FAILED"],
      ["b", undefined],
    ]);
  });

  it("starts nothing once it is stopped", async () => {
    const starts = new Starts();
    const { outcomes } = await runJobs([starts.job("a")], {}, AbortSignal.abort(), idle);
    assert.deepEqual([outcomes, starts.names], [[], []]);
  });
});

describe("durations", () => {
  const outcome = (name: string, seconds: number, failure?: string): Outcome => ({
    ...{ name, seconds, failure },
    ...{ cpuSeconds: undefined, output: "", summary: undefined },
  });

  it("are those of the jobs that passed", () => {
    const outcomes = [outcome("b", 2.6), outcome("a", 9, "FAILED")];
    assert.deepEqual(updatedDurations({ a: 1, b: 1, c: 1 }, outcomes), { a: 1, b: 3, c: 1 });
  });

  it("name only jobs that exist", () => {
    const names = [...commands(), ...listSuites(true)].map(({ name }) => name);
    assert.deepEqual(
      Object.keys(readDurations()).filter((name) => !names.includes(name)),
      [],
    );
  });
});
