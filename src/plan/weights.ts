/** Weights of real servers. Pure. */
import {
  avoidsZeroWeights,
  honorsWeights,
  rampsWeights,
  sharesByWeights,
} from "../base/scheduler.ts";
import type { Endpoint } from "../model/endpoints.ts";
import { type Canary, rampSteps, type Tuning, type WeightAnswer } from "../model/tuning.ts";
import type { TuningFacts } from "./tuning-facts.ts";

/** The largest weight that ipvsadm accepts. */
const largestWeight = 65_535;

/** The endpoints' weights, in the same order. Each weight is 1 unless the Service has other settings. */
export function weightsOf(
  endpoints: readonly Endpoint[],
  tuning: Tuning,
  facts: Pick<TuningFacts, "nodeWeights" | "rampStep" | "answerOf" | "isEjected">,
): readonly number[] {
  const { scheduler, slowStartMs = 0, weights } = tuning;
  let result =
    typeof weights === "object" && honorsWeights(scheduler)
      ? answeredWeights(endpoints.map(({ address }) => facts.answerOf(address)))
      : endpoints.map((endpoint) => ownWeight(endpoint, tuning, facts));
  const canary = canaryOf(tuning);
  if (canary !== undefined) result = shared(endpoints, result, canary);
  if (slowStartMs > 0 && rampsWeights(scheduler)) {
    // Multiply all weights by `rampSteps`, even if no endpoint is new, so that a ramp changes only the weight of the
    // new endpoint.
    const full = limited(result.map((weight) => weight * rampSteps));
    result = full.map((weight, index) => {
      const address = endpoints[index]?.address;
      const step = (address && facts.rampStep(address)) ?? rampSteps;
      return Math.ceil((weight * step) / rampSteps);
    });
  }
  return ejectionMsOf(tuning) === 0 ? result : withoutEjected(endpoints, result, facts);
}

/** See `Tuning.outlierEjectionMs`; 0 if the scheduler would not choose a different endpoint for connections. */
export function ejectionMsOf({ outlierEjectionMs = 0, scheduler, schedulerFlags }: Tuning): number {
  return avoidsZeroWeights(scheduler, schedulerFlags) ? outlierEjectionMs : 0;
}

/** Sets the weights of ejected endpoints to 0. If there are too many, only those with the lowest keys. */
function withoutEjected(
  endpoints: readonly Endpoint[],
  weights: readonly number[],
  { isEjected }: Pick<TuningFacts, "isEjected">,
): number[] {
  const zeros = weights.filter((weight) => weight === 0).length;
  const keys = endpoints.flatMap(({ key }, index) =>
    weights[index] !== 0 && isEjected(key) ? [key] : [],
  );
  const room = Math.max(0, mostWithoutWeight(endpoints.length) - zeros);
  const ejected = new Set(keys.sort().slice(0, room));
  return endpoints.map(({ key }, index) => (ejected.has(key) ? 0 : (weights[index] ?? 0)));
}

/** Maximum number of endpoints to which answers and ejections together may give weight 0: a third, rounded down. */
export function mostWithoutWeight(endpointCount: number): number {
  return Math.floor(endpointCount / 3);
}

/**
 * The weights that endpoints answered. The weight of an endpoint without an answer is the average of all answers, so
 * its share does not depend on the scale that the endpoints use. If too many endpoints answered 0, their weight is 1.
 */
function answeredWeights(answers: readonly (WeightAnswer | undefined)[]): readonly number[] {
  const known = answers.flatMap((answer) => answer?.weight ?? []);
  const zeros = known.filter((weight) => weight === 0).length;
  const smallest = zeros > mostWithoutWeight(answers.length) ? 1 : 0;
  const sum = known.reduce((one, other) => one + other, 0);
  const average = Math.max(1, Math.round(sum / Math.max(1, known.length)));
  return answers.map((answer) => Math.max(smallest, answer?.weight ?? average));
}

/** An endpoint's weight from its slice or Node, before a canary and a slow start are applied. */
export function ownWeight(
  { nodeName, sliceWeight }: Endpoint,
  { scheduler, weights }: Tuning,
  { nodeWeights }: Pick<TuningFacts, "nodeWeights">,
): number {
  if (!honorsWeights(scheduler)) return 1;
  if (weights === "slice") return sliceWeight ?? 1;
  return weights === "node" ? (nodeWeights.get(nodeName) ?? 1) : 1;
}

/** The canary group, if the scheduler divides connections by weight. */
export function canaryOf({ canary, scheduler }: Tuning): Canary | undefined {
  return sharesByWeights(scheduler) ? canary : undefined;
}

/** Scales the weights so that the canary group has its share. Does not scale if either group has no weight. */
function shared(
  endpoints: readonly Endpoint[],
  weights: readonly number[],
  canary: Canary,
): number[] {
  const isCanary = endpoints.map((endpoint) => belongsTo(endpoint, canary));
  const sumOf = (group: boolean): number =>
    weights.reduce((sum, weight, index) => (isCanary[index] === group ? sum + weight : sum), 0);
  const [ofCanary, ofOthers] = [sumOf(true), sumOf(false)];
  if (ofCanary === 0 || ofOthers === 0) return [...weights];
  // Multiply each weight by its own group's percentage and by the other group's total weight.
  const scaled = weights.map((weight, index) =>
    isCanary[index] === true
      ? weight * canary.percent * ofOthers
      : weight * (100 - canary.percent) * ofCanary,
  );
  return reduced(scaled);
}

export function belongsTo({ slice, zone }: Endpoint, { by, name }: Canary): boolean {
  return (by === "slice" ? slice : zone) === name;
}

/** Reduces weights to the smallest integers with the same proportions that leave room for a slow start. */
function reduced(weights: readonly number[]): number[] {
  const divisor = weights.reduce(greatestCommonDivisor, 0);
  return limited(
    weights.map((weight) => weight / divisor),
    largestWeight / rampSteps,
  );
}

/** Scales weights down to at most `most`. Weights above 0 do not become 0. */
export function limited(weights: readonly number[], most: number = largestWeight): number[] {
  const largest = weights.reduce((one, other) => Math.max(one, other), 0);
  const scale = largest > most ? most / largest : 1;
  return weights.map((weight) => (weight === 0 ? 0 : Math.max(1, Math.round(weight * scale))));
}

function greatestCommonDivisor(one: number, other: number): number {
  let [larger, smaller] = [one, other];
  while (smaller !== 0) [larger, smaller] = [smaller, larger % smaller];
  return larger;
}
