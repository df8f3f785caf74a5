import { type RealServer, realServerKey, sameRealServer } from "../../state/real-server.ts";
import { sameVirtualServer, type VirtualServer } from "../../state/virtual-server.ts";
import type { CachedVirtualServer } from "../observed/cached-state.ts";
import type { Subject } from "../subject.ts";
import { absent, type Drift } from "./drift.ts";

/** A virtual server that is not as it should be. */
export interface ServerView {
  readonly key: string;
  /** As believed, as found, as it is wanted. */
  readonly before: CachedVirtualServer | undefined;
  readonly after: CachedVirtualServer | undefined;
  readonly wanted: CachedVirtualServer | undefined;
}

/** What a third party did to a virtual server; its real servers go with it, as one thing. Pure. */
export function driftOfServer({ key, before, after, wanted }: ServerView): readonly Drift[] {
  const subject: Subject = { type: "virtual-server", virtualServer: key };
  if (before === undefined) {
    if (after === undefined || wanted !== undefined) return [];
    return [{ kind: "virtual-server", subject, before: absent, after: wholeText(after) }];
  }
  if (wanted === undefined) return [];
  if (after === undefined) {
    return [{ kind: "virtual-server", subject, before: wholeText(before), after: absent }];
  }
  return [
    ...driftOfSettings(subject, before.virtualServer, after.virtualServer, wanted.virtualServer),
    ...driftOfRealServers(key, before.realServers, after.realServers, wanted.realServers),
  ];
}

function driftOfSettings(
  subject: Subject,
  was: VirtualServer,
  is: VirtualServer,
  wanted: VirtualServer,
): readonly Drift[] {
  if (sameVirtualServer(was, is) || sameVirtualServer(wanted, is)) return [];
  const { scheduler } = is;
  return sameVirtualServer({ ...was, scheduler }, is)
    ? [{ kind: "scheduler", subject, before: was.scheduler, after: scheduler }]
    : [{ kind: "virtual-server", subject, before: settingsText(was), after: settingsText(is) }];
}

function driftOfRealServers(
  key: string,
  before: readonly RealServer[],
  after: readonly RealServer[],
  wanted: readonly RealServer[],
): readonly Drift[] {
  const [known, found, wished] = [byKey(before), byKey(after), byKey(wanted)];
  return [...new Set([...known.keys(), ...found.keys()])].flatMap((server): readonly Drift[] => {
    const drift = driftOfOne(known.get(server), found.get(server), wished.get(server));
    const subject: Subject = { type: "real-server", virtualServer: key, realServer: server };
    return drift === undefined ? [] : [{ ...drift, subject }];
  });
}

/** Nothing is said of one that nobody wants while it drains, or once it is gone. */
function driftOfOne(
  was: RealServer | undefined,
  is: RealServer | undefined,
  wanted: RealServer | undefined,
): Omit<Drift, "subject"> | undefined {
  if (is === undefined) {
    if (was === undefined || wanted === undefined) return undefined;
    return { kind: "real-server", before: serverText(was), after: absent };
  }
  const isRight = wanted === undefined ? is.weight === 0 : sameRealServer(wanted, is);
  if (isRight) return undefined;
  if (was === undefined) return { kind: "real-server", before: absent, after: serverText(is) };
  if (sameRealServer(was, is)) return undefined;
  return sameRealServer({ ...was, weight: is.weight }, is)
    ? { kind: "weight", before: String(was.weight), after: String(is.weight) }
    : { kind: "real-server", before: serverText(was), after: serverText(is) };
}

function byKey(servers: readonly RealServer[]): ReadonlyMap<string, RealServer> {
  return new Map(servers.map((server) => [realServerKey(server), server]));
}

function serverText({ weight, forwardingMethod, limit }: RealServer): string {
  const method = forwardingMethod === 0 ? "" : ` method ${forwardingMethod}`;
  const thresholds = limit === undefined ? "" : ` thresholds ${limit.upper} ${limit.lower}`;
  return `weight ${weight}${method}${thresholds}`;
}

function settingsText(server: VirtualServer): string {
  const { scheduler, persistenceTimeoutSeconds, persistencePrefixLength, flags } = server;
  const words = [
    scheduler,
    persistenceTimeoutSeconds === 0 ? "" : `persistent ${persistenceTimeoutSeconds}s`,
    persistenceTimeoutSeconds === 0 ? "" : `clients /${persistencePrefixLength}`,
    flags === 0 ? "" : `flags 0x${flags.toString(16)}`,
  ];
  return words.filter(Boolean).join(" ");
}

function wholeText({ virtualServer, realServers }: CachedVirtualServer): string {
  return `${settingsText(virtualServer)}, ${realServers.length} real servers`;
}
