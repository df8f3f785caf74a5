import type { LostTo } from "../../plan/claims/claim.ts";
import type { ServiceRow } from "./answers.ts";

/** The field of a row that says who has the address, and why; none where the row's own Service has it. */
export function claimedBy(lost: LostTo | undefined): Pick<ServiceRow, "claimedBy"> {
  if (lost === undefined) return {};
  const [namespace = "", name = ""] = lost.service.split("/");
  return { claimedBy: { namespace, name, claim: lost.reason } };
}
