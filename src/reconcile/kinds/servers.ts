/** Virtual and real servers. */
import {
  isTunnel,
  type RealServer,
  type RealServerId,
  realServerKey,
  sameRealServer,
  sameRealServers,
} from "../../state/real-server.ts";
import {
  type ServerKey,
  sameVirtualServer,
  type VirtualServer,
} from "../../state/virtual-server.ts";
import type { ChangeOf, RealServerChange, ServerChange } from "../change.ts";
import { absent, type Drift } from "../drift.ts";
import type { CachedVirtualServer } from "../observed/cached-state.ts";
import type { Differences } from "../observed/difference.ts";
import type { DriftTexts, FoldContext, Kind, Kinds } from "./kind.ts";

const virtualServer: Omit<Kind<ServerChange>, "fold" | "detail" | "drift"> = {
  part: "servers",
  subject: ({ key }) => ({ type: "virtual-server", virtualServer: key }),
  requestKey: () => "virtual-servers",
  send: (changes, { ipvs }) => ipvs.apply(changes),
};

/**
 * Real servers are not part of the requests for virtual servers, because they are added only after it is known whether
 * their virtual server was created.
 */
const realServer: Omit<Kind<RealServerChange>, "subject"> = {
  part: "servers",
  requestKey: () => "real-servers",
  send: (changes, { ipvs }) => ipvs.apply(changes),
  drift: ({ key, ...change }, { servers }) =>
    driftOfRealServer("after" in change ? change.after : change.before, servers.get(key)),
};

type WrittenServer = ChangeOf<"real-server-create" | "real-server-update">;

function subjectOfWritten({
  key,
  after,
}: WrittenServer): ReturnType<Kind<WrittenServer>["subject"]> {
  return { type: "real-server", virtualServer: key, realServer: realServerKey(after) };
}

export const serverKinds: Kinds<ServerChange["kind"]> = {
  "virtual-server-create": {
    ...virtualServer,
    fold: ({ key, after }, context) =>
      share(key, { virtualServer: after, realServers: [] }, context),
    detail: ({ after }) => settingsText(after),
    drift({ key }, { servers }) {
      const { before, after } = servers.get(key) ?? {};
      if (before === undefined || after !== undefined) return [];
      return [{ kind: "virtual-server", before: wholeText(before), after: absent }];
    },
  },
  "virtual-server-update": {
    ...virtualServer,
    fold({ key, after }, context) {
      const realServers = context.cached.virtualServers.get(key)?.realServers ?? [];
      share(key, { virtualServer: after, realServers }, context);
    },
    detail: ({ before, after }) => `${settingsText(before)} -> ${settingsText(after)}`,
    drift({ key }, { servers }) {
      const { before, after } = servers.get(key) ?? {};
      if (before === undefined || after === undefined) return [];
      return driftOfSettings(before.virtualServer, after.virtualServer);
    },
  },
  "virtual-server-remove": {
    ...virtualServer,
    fold: ({ key }, { cached }) => cached.virtualServers.delete(key),
    drift({ key }, { servers }) {
      const { before, after } = servers.get(key) ?? {};
      if (before !== undefined || after === undefined) return [];
      return [{ kind: "virtual-server", before: absent, after: wholeText(after) }];
    },
  },
  "real-server-create": {
    ...realServer,
    subject: subjectOfWritten,
    detail: ({ after }) => serverText(after),
  },
  "real-server-update": {
    ...realServer,
    subject: subjectOfWritten,
    detail: ({ before, after }) => `${serverText(before)} -> ${serverText(after)}`,
  },
  "real-server-remove": {
    ...realServer,
    subject: ({ key, before }) => ({
      ...{ type: "real-server", virtualServer: key, realServer: realServerKey(before) },
    }),
  },
};

/** Applies the changes of one virtual server's real servers to the cache. Usually all its real servers change. */
export function foldRealServers(
  key: ServerKey,
  changes: readonly RealServerChange[],
  context: FoldContext,
): void {
  const server = context.cached.virtualServers.get(key);
  if (server === undefined) return;
  const planned = context.desired.virtualServer(key);
  if (planned !== undefined && completes(changes, server, planned)) {
    context.cached.virtualServers.set(key, planned);
    return;
  }
  const byKey = new Map(server.realServers.map((one) => [realServerKey(one), one]));
  for (const change of changes) {
    if (change.kind === "real-server-remove") byKey.delete(realServerKey(change.before));
    else byKey.set(realServerKey(change.after), change.after);
  }
  share(key, { virtualServer: server.virtualServer, realServers: [...byKey.values()] }, context);
}

/**
 * Whether the changes create exactly the planned real servers of an empty virtual server, as most changes in a first
 * sync do.
 */
function completes(
  changes: readonly RealServerChange[],
  { virtualServer: present, realServers }: CachedVirtualServer,
  planned: CachedVirtualServer,
): boolean {
  return (
    realServers.length === 0 &&
    present === planned.virtualServer &&
    changes.length === planned.realServers.length &&
    changes.every((change, index) => {
      return change.kind === "real-server-create" && change.after === planned.realServers[index];
    })
  );
}

/** Stores the desired object in the cache if the two are equal, to save memory. */
function share(
  key: ServerKey,
  server: CachedVirtualServer,
  { cached, desired }: FoldContext,
): void {
  const planned = desired.virtualServer(key);
  const isAsPlanned =
    planned !== undefined &&
    sameVirtualServer(planned.virtualServer, server.virtualServer) &&
    sameRealServers(planned.realServers, server.realServers);
  cached.virtualServers.set(key, isAsPlanned ? planned : server);
}

function driftOfSettings(was: VirtualServer, is: VirtualServer): DriftTexts {
  if (sameVirtualServer(was, is)) return [];
  const { scheduler } = is;
  return sameVirtualServer({ ...was, scheduler }, is)
    ? [{ kind: "scheduler", before: was.scheduler, after: scheduler }]
    : [{ kind: "virtual-server", before: settingsText(was), after: settingsText(is) }];
}

/** What a third party did to a real server, if its virtual server still exists. */
function driftOfRealServer(
  changed: RealServerId,
  { before, after }: Partial<DifferenceOfServer> = {},
): DriftTexts {
  if (before === undefined || after === undefined) return [];
  const key = realServerKey(changed);
  const [was, is] = [before, after].map(({ realServers }) =>
    realServers.find((server) => realServerKey(server) === key),
  );
  const kind: Drift["kind"] = "real-server";
  if (is === undefined) return was ? [{ kind, before: serverText(was), after: absent }] : [];
  if (was === undefined) return [{ kind, before: absent, after: serverText(is) }];
  if (sameRealServer(was, is)) return [];
  return sameRealServer({ ...was, weight: is.weight }, is)
    ? [{ kind: "weight", before: String(was.weight), after: String(is.weight) }]
    : [{ kind, before: serverText(was), after: serverText(is) }];
}

type DifferenceOfServer = NonNullable<ReturnType<Differences["servers"]["get"]>>;

function serverText({ weight, forwardingMethod, limit }: RealServer): string {
  const other = isTunnel({ forwardingMethod })
    ? ", through a tunnel"
    : `, method ${forwardingMethod}`;
  const method = forwardingMethod === 0 ? "" : other;
  const thresholds = limit === undefined ? "" : `, thresholds ${limit.upper} ${limit.lower}`;
  return `weight ${weight}${method}${thresholds}`;
}

function settingsText(server: VirtualServer): string {
  const { scheduler, persistenceTimeoutSeconds, persistencePrefixLength, flags } = server;
  const isPersistent = persistenceTimeoutSeconds > 0;
  const isGrouped = isPersistent && ![32, 128].includes(persistencePrefixLength);
  const words = [
    scheduler,
    isPersistent ? `persistent ${persistenceTimeoutSeconds}s` : "",
    isGrouped ? `clients /${persistencePrefixLength}` : "",
    flags === 0 ? "" : `flags 0x${flags.toString(16)}`,
  ];
  return words.filter(Boolean).join(" ");
}

function wholeText({ virtualServer: settings, realServers }: CachedVirtualServer): string {
  return `${settingsText(settings)}, ${realServers.length} real servers`;
}
