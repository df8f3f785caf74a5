import { networkInterfaces } from "node:os";

/**
 * The `skip` option of tests that use this machine's IPv6 sockets: false if it has the address ::1, else the reason.
 */
export const skippedWithoutIpv6: string | false = Object.values(networkInterfaces())
  .flatMap((addresses) => addresses ?? [])
  .some(({ address }) => address === "::1")
  ? false
  : "this machine has no IPv6 address on its loopback interface";
