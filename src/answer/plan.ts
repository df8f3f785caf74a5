/** The changes that a sync, a start or a clean-up would make. */
import { apiVersion } from "./answers.ts";
import type { View } from "./render.ts";

export interface PlannedChanges {
  readonly answer: object;
  readonly view: View<object>;
  readonly hasChanges: boolean;
}

/** `text` is shown to people. `object` is printed as JSON or YAML. */
export function plannedChanges(object: object, text: string, hasChanges: boolean): PlannedChanges {
  const answer = { apiVersion, kind: "Plan", ...object };
  return { answer, view: { blocks: () => text.trimEnd().split("\n") }, hasChanges };
}
