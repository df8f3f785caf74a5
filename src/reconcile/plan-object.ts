/** Formats a plan for people and programs. Pure. */
import type { PlannedChange, PlannedChanges } from "../state/planned-change.ts";
import type { Change } from "./change.ts";
import type { ChangePlan } from "./change-plan.ts";
import { kindOf, subjectOf } from "./kinds/kinds.ts";
import { subjectText } from "./subject.ts";

/** All changes with text, values and Services, and the foreign virtual servers that Services also request. */
export function planObject(plan: ChangePlan): PlannedChanges {
  const objectOf = (change: Change): PlannedChange => ({
    kind: change.kind,
    subject: subjectOf(change),
    text: changeText(change),
    ...valuesOf(change),
    services: plan.servicesOf(change),
    reason: change.reason,
  });
  return {
    changes: [
      ...plan.changes.map(objectOf),
      ...plan.deferred.map(({ change, reason }) => ({ ...objectOf(change), deferred: reason })),
    ],
    conflicts: plan.conflicts,
  };
}

function valuesOf(change: Change): Pick<PlannedChange, "before" | "after"> {
  if (change.kind === "chain-write") return { before: change.before, after: change.chain.rules };
  if (change.kind === "set-create" || change.kind === "set-swap") return { after: change.set };
  return {
    ...("before" in change ? { before: change.before } : {}),
    ...("after" in change ? { after: change.after } : {}),
  };
}

/** For example `+ TCP 10.96.0.10:80 (rr)`. */
export function changeText(change: Change): string {
  const [, verb = ""] = /-(\w+)$/.exec(change.kind) ?? [];
  const detail = kindOf(change).detail?.(change) ?? "";
  return `${signs[verb] ?? "~"} ${subjectText(subjectOf(change))}${detail === "" ? "" : ` (${detail})`}`;
}

/** The sign at the start of a line, by verb. The default is `~`. */
const signs: Readonly<Record<string, string>> = {
  ...{ add: "+", create: "+", insert: "+", load: "+" },
  ...{ remove: "-", destroy: "-", delete: "-" },
};
