import { none } from "../../base/none.ts";
import { ClaimAges, type RecordedClaims } from "./claim-ages.ts";
import { PortAdmission } from "./port-admission.ts";

/** What is known of claims beyond the objects: how old they are, and which the node admits. */
export interface ClaimMemory {
  readonly ages: ClaimAges;
  readonly admission: PortAdmission;
  /** Records these in place of all before. Does not wait, never throws. */
  keep(record: RecordedClaims): void;
}

/** All claims are equally old, and no process listens. */
export function noClaimMemory(): ClaimMemory {
  const ages = new ClaimAges();
  return { ages, admission: new PortAdmission(ages, () => none), keep() {} };
}
