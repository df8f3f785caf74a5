/** Reports weights of EndpointSlices. Pure. */
import type { EndpointSliceRecord } from "../api/objects.ts";
import { none } from "../base/none.ts";
import { parseWeight } from "../base/weight.ts";
import { weightName } from "./annotations.ts";
import type { AnnotationProblem, Tuning } from "./tuning.ts";

/** EndpointSlices with an invalid weight, if the Service takes its weights from its slices. */
export function sliceWeightProblems(
  { weights }: Tuning,
  slices: Iterable<EndpointSliceRecord>,
): readonly AnnotationProblem[] {
  if (weights !== "slice") return none;
  return [...slices].flatMap(({ name, weightText }): readonly AnnotationProblem[] => {
    if (weightText === undefined || parseWeight(weightText) !== undefined) return [];
    const message = `on EndpointSlice ${name}: must be a number from 0 to 65535`;
    const reason = "invalid-annotation";
    return [{ annotation: weightName, value: weightText, reason, message }];
  });
}
