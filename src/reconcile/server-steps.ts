/** Virtual servers with their real servers: created, updated, and removed when nobody wants them. */
import type { IpvsChange } from "../kernel/kernel.ts";
import { realServerKey } from "../state/real-server.ts";
import { virtualServerKey } from "../state/virtual-server.ts";
import { idOf, type VirtualServerDiff } from "./diff.ts";
import { byIndex } from "./entry-steps.ts";
import { isTaken } from "./kernel-errors.ts";
import { isOurs } from "./ownership.ts";
import type { ChangeKind } from "./report.ts";
import type { SyncContext } from "./sync-context.ts";

/** Changes that are made and sent together: a few datagrams, so that there are never very many at once. */
const changesPerBatch = 2_000;

/** Creates and updates, batch by batch. Real servers that nobody wants stay for the drain step. */
export async function applyServers(context: SyncContext): Promise<void> {
  const diffs = context.work.servers.filter((diff) => !diff.isUnwanted && isTold(diff, context));
  let batch: BatchItem[] = [];
  let count = 0;
  for (const diff of diffs) {
    const changes = diff.changes();
    batch.push({ diff, changes });
    count += changes.length;
    if (count < changesPerBatch) continue;
    await applyBatch(context, batch);
    batch = [];
    count = 0;
  }
  await applyBatch(context, batch);
}

interface BatchItem {
  readonly diff: VirtualServerDiff;
  readonly changes: readonly IpvsChange[];
}

async function applyBatch(context: SyncContext, batch: readonly BatchItem[]): Promise<void> {
  const { known, goal } = context;
  const failedKeys = await createAndUpdate(
    context,
    batch.flatMap(({ changes }) => changes),
  );
  const diffs = batch.map(({ diff }) => diff);
  for (const { key, unwanted } of diffs) {
    const desired = goal.desired.virtualServer(key);
    if (desired === undefined || failedKeys.has(key)) continue;
    const { virtualServer, realServers } = desired;
    // Sharing what is desired makes the next comparison of an unchanged server free.
    const present =
      unwanted.length === 0
        ? desired
        : { virtualServer, realServers: [...realServers, ...unwanted] };
    known.virtualServers.set(key, present);
  }
}

/**
 * No virtual server while the entry that tells that it is ours is refused: should the program end before
 * the next sync, the one after it would leave it to others. Where the whole set cannot be had, Services are
 * served without it.
 */
function isTold({ key, virtualServer }: VirtualServerDiff, context: SyncContext): boolean {
  const { known, goal, report } = context;
  if (!report.hasFailed("entry-add") || known.virtualServers.has(key)) return true;
  return isOurs(virtualServer, known, goal.nodeAddresses);
}

/** Real servers go into virtual servers that must be new only once it is clear that they are. */
async function createAndUpdate(
  context: SyncContext,
  changes: readonly IpvsChange[],
): Promise<ReadonlySet<string>> {
  const creations = changes.filter((change) => "mustBeNew" in change);
  if (creations.length === 0) return serverKeys(await applyIpvs(context, changes));
  const failedKeys = serverKeys(await applyIpvs(context, creations));
  const others = changes.filter(
    (change) => !("mustBeNew" in change) && !failedKeys.has(virtualServerKey(change.virtualServer)),
  );
  return new Set([...failedKeys, ...serverKeys(await applyIpvs(context, others))]);
}

/** Removes virtual servers; their real servers go with them. */
export async function removeServers(context: SyncContext): Promise<void> {
  const { known, work } = context;
  const diffs = work.servers.filter(
    (diff) => diff.isUnwanted && known.virtualServers.has(diff.key),
  );
  const failed = await applyIpvs(
    context,
    diffs.flatMap((diff) => removal(diff, context)),
  );
  const failedKeys = serverKeys(failed);
  for (const { key } of diffs) {
    if (!failedKeys.has(key)) known.virtualServers.delete(key);
  }
}

/** Carries out IPVS changes, reports each, and gives those that failed. */
export async function applyIpvs(
  { kernel, report }: Pick<SyncContext, "kernel" | "report">,
  changes: readonly IpvsChange[],
): Promise<ReadonlySet<IpvsChange>> {
  const failed = new Set<IpvsChange>();
  if (changes.length === 0) return failed;
  const errors = byIndex(await kernel.ipvs.apply(changes));
  for (const [index, change] of changes.entries()) {
    const error = errors.get(index);
    if (error === undefined) {
      report.count(kindOf(change));
      continue;
    }
    failed.add(change);
    if ("mustBeNew" in change && isTaken(error))
      report.taken(virtualServerKey(change.virtualServer));
    report.fail(kindOf(change), subjectOf(change), error);
  }
  return failed;
}

/** Keys of the virtual servers that these changes are about. */
function serverKeys(changes: Iterable<IpvsChange>): ReadonlySet<string> {
  return new Set([...changes].map((change) => virtualServerKey(change.virtualServer)));
}

function removal({ key }: VirtualServerDiff, { known }: SyncContext): readonly IpvsChange[] {
  const server = known.virtualServers.get(key);
  if (server === undefined) return [];
  return [{ kind: "remove-virtual-server", virtualServer: idOf(server) }];
}

const kinds: Readonly<Record<IpvsChange["kind"], ChangeKind>> = {
  "create-virtual-server": "virtual-server-create",
  "update-virtual-server": "virtual-server-update",
  "remove-virtual-server": "virtual-server-remove",
  "create-real-server": "real-server-create",
  "update-real-server": "real-server-update",
  "remove-real-server": "real-server-remove",
};

function kindOf(change: IpvsChange): ChangeKind {
  return kinds[change.kind];
}

function subjectOf(change: IpvsChange): string {
  const server = virtualServerKey(change.virtualServer);
  return "realServer" in change ? `${server} -> ${realServerKey(change.realServer)}` : server;
}
