/** Set entries and addresses: values that are there or not. */
import { familyOf } from "../base/ip.ts";
import type { AddressChange, FailedChange, SetChange } from "../kernel/kernel.ts";
import { setFor } from "../plan/sets.ts";
import { addressEntry } from "../state/set-entry.ts";
import type { SyncContext } from "./sync-context.ts";

/** What is wrong with a set that cannot take entries was reported when it could not be made. */
export function addEntries(context: SyncContext): Promise<void> {
  const { known, work } = context;
  const possible = work.addedEntries.filter(({ set }) => known.setEntries.has(set.name));
  return applyEntries(context, possible);
}

/**
 * An entry tells that a virtual server is ours, so it outlives it: while a removal has failed, no entry
 * goes. The next sync looks at everything again.
 */
export async function removeEntries(context: SyncContext): Promise<void> {
  if (context.report.hasFailed("virtual-server-remove")) return;
  await applyEntries(context, context.work.removedEntries);
}

/** Without its entry in KUBE-IPVS-IPS the node's own services would answer on an address. */
export function bindAddresses(context: SyncContext): Promise<void> {
  const { known, report, work } = context;
  if (!report.hasFailed("entry-add")) return applyAddresses(context, work.addedAddresses);
  const guarded = work.addedAddresses.filter(({ address }) => {
    const { name } = setFor("ipvsIps", familyOf(address));
    return !known.setEntries.has(name) || known.hasEntry(name, addressEntry(address));
  });
  return applyAddresses(context, guarded);
}

export function unbindAddresses(context: SyncContext): Promise<void> {
  return applyAddresses(context, context.work.removedAddresses);
}

/** Changes that are encoded and sent together: a few datagrams. Between two batches others get their turn. */
const changesPerBatch = 2_000;

function* batchesOf<T>(changes: readonly T[]): Generator<readonly T[]> {
  for (let first = 0; first < changes.length; first += changesPerBatch) {
    yield changes.slice(first, first + changesPerBatch);
  }
}

async function applyEntries(context: SyncContext, changes: readonly SetChange[]): Promise<void> {
  for (const batch of batchesOf(changes)) await applyEntryBatch(context, batch);
}

async function applyEntryBatch(
  { kernel, known, report }: SyncContext,
  changes: readonly SetChange[],
): Promise<void> {
  const failed = byIndex(await kernel.ipSets.apply(changes));
  for (const [index, { kind, set, entry }] of changes.entries()) {
    const error = failed.get(index);
    if (error !== undefined) {
      report.fail(kind === "add" ? "entry-add" : "entry-remove", `${set.name} ${entry}`, error);
      continue;
    }
    report.count(kind === "add" ? "entry-add" : "entry-remove");
    if (kind === "add") known.setEntries.get(set.name)?.add(entry);
    else known.setEntries.get(set.name)?.delete(entry);
  }
}

async function applyAddresses(
  context: SyncContext,
  changes: readonly AddressChange[],
): Promise<void> {
  for (const batch of batchesOf(changes)) await applyAddressBatch(context, batch);
}

async function applyAddressBatch(
  { kernel, known, report }: SyncContext,
  changes: readonly AddressChange[],
): Promise<void> {
  const failed = byIndex(await kernel.link.apply(changes));
  for (const [index, { kind, address }] of changes.entries()) {
    const error = failed.get(index);
    if (error !== undefined) {
      report.fail(kind === "add" ? "address-add" : "address-remove", address, error);
      continue;
    }
    report.count(kind === "add" ? "address-add" : "address-remove");
    if (kind === "add") known.addresses.add(address);
    else known.addresses.delete(address);
  }
}

/** Failures by position in the list of changes. */
export function byIndex(failures: readonly FailedChange[]): ReadonlyMap<number, Error> {
  return new Map(failures.map(({ index, error }) => [index, error]));
}
