/** The real netlink socket for `TransportDependencies`: the addon in native-shim/, loaded on first use. */
import { close, open, transact, transactEach, watch } from "../../native-shim/index.ts";
import type { NetlinkShim } from "./transport.ts";

export const nativeSocket: NetlinkShim = { open, transact, transactEach, watch, close };
