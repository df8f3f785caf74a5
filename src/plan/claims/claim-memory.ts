import { none } from "../../base/none.ts";
import { ClaimAges, type RecordedClaims } from "./claim-ages.ts";
import { PortAdmission } from "./port-admission.ts";

/** Facts about claims that API objects do not contain: their ages, and whether the node admits them. */
export interface ClaimMemory {
  readonly ages: ClaimAges;
  readonly admission: PortAdmission;
  /** Replaces everything recorded before. Returns without waiting and never throws. */
  keep(record: RecordedClaims): void;
}

/** A memory in which all claims are equally old and no process listens on any port. */
export function noClaimMemory(): ClaimMemory {
  const ages = new ClaimAges();
  return { ages, admission: new PortAdmission(ages, () => none), keep() {} };
}
