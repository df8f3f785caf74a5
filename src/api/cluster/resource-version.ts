import { ApiError } from "../api-error.ts";
import type { WatchedResource } from "./watched-resources.ts";

/**
 * Throws ApiError `older-history` if a watch reports a version older than the one from which it started. That happens
 * after the server is restored from a backup; the changes in between are never reported. Versions are increasing
 * integers (KEP-5504). Other versions cannot be compared and are accepted.
 */
export function expectNewer(resource: WatchedResource, version: string, position: string): void {
  if (!isWholeNumber(version) || !isWholeNumber(position)) return;
  if (BigInt(version) >= BigInt(position)) return;
  const message =
    `The resourceVersion of ${resource.name} went backwards, from ${position} to ` +
    `${version}, as happens after a restore from a backup; relisting`;
  throw new ApiError(message, { reason: "older-history", resource: resource.name });
}

/** Because the text is untrusted, accepts no more digits than an unsigned 64-bit number has. */
function isWholeNumber(version: string): boolean {
  return /^(0|[1-9]\d{0,19})$/.test(version);
}
