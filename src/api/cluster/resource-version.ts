import { ApiError } from "../api-error.ts";
import type { WatchedResource } from "./watched-resources.ts";

/**
 * Throws ApiError `older-history` where a watch reports a version before the one it began at: the server was set back, as
 * by a restore from a backup, and what changed in between is never reported. Versions are whole numbers that
 * grow (KEP-5504); what is none cannot be compared and passes.
 */
export function expectNewer(resource: WatchedResource, version: string, position: string): void {
  if (!isWholeNumber(version) || !isWholeNumber(position)) return;
  if (BigInt(version) >= BigInt(position)) return;
  const message =
    `The resourceVersion of ${resource.name} went backwards, from ${position} to ` +
    `${version}, as after a restore from a backup; relisting`;
  throw new ApiError(message, { reason: "older-history", resource: resource.name });
}

/** As long as an unsigned number of 64 bits, no longer: the text is a stranger's. */
function isWholeNumber(version: string): boolean {
  return /^(0|[1-9]\d{0,19})$/.test(version);
}
