/**
 * Compares the two set writers, ipset and nf_tables, on this machine's own kernel. Measures changing 1, 10 and 1,000
 * entries in a set of 10,000, and filling and listing the set. Needs its own network namespace:
 *
 *     unshare --net node test/bench/set-writers.ts
 */
import { systemClock } from "../../src/base/clock.ts";
import { IpSetsClient } from "../../src/kernel/ipset/client.ts";
import type { EntryChange, IpSets } from "../../src/kernel/kernel.ts";
import { NftSetsClient } from "../../src/kernel/nftables/sets-client.ts";
import { nativeSocket } from "../../src/netlink/native-socket.ts";
import type { IpSet, IpSetType } from "../../src/state/ip-set.ts";
import type { SetEntry } from "../../src/state/set-entry.ts";

const parts = { shim: nativeSocket, clock: systemClock };
const writers = { ipset: new IpSetsClient(parts), nf_tables: new NftSetsClient(parts) };
const filled = 10_000;
const changesPerCall = 2_000;
/** Number of changes of each size. The median is printed. */
const rounds = 51;

const entryTexts: Readonly<Partial<Record<IpSetType, (index: number) => string>>> = {
  "hash:ip,port": (index) => `10.96.${index >> 8}.${index & 255},tcp:443`,
  "hash:ip,port,net": (index) => `10.96.${index >> 8}.${index & 255},tcp:443,192.0.2.0/25`,
};

function changes(
  kind: EntryChange["kind"],
  set: IpSet,
  first: number,
  count: number,
): EntryChange[] {
  const textOf = entryTexts[set.type];
  return Array.from({ length: count }, (_, offset) => {
    const entry = (textOf?.(first + offset) ?? "") as SetEntry;
    return { kind, set, entry };
  });
}

async function apply(sets: IpSets, list: readonly EntryChange[]): Promise<void> {
  for (let first = 0; first < list.length; first += changesPerCall) {
    const [failed] = await sets.apply(list.slice(first, first + changesPerCall));
    if (failed !== undefined) throw failed.error;
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

function median(times: readonly number[]): string {
  const middle = times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)] ?? 0;
  return middle.toFixed(2);
}

async function measure(name: string, sets: IpSets, type: IpSetType): Promise<void> {
  const set: IpSet = { name: "BENCH", type, family: "IPv4", maxElements: 65_536 };
  await sets.create(set);
  const fill = changes("entry-add", set, 0, filled);
  const fillMs = await timed(() => apply(sets, fill));
  const row = [name, type, `fill ${((filled / fillMs) * 1000).toFixed(0)}/s`];
  for (const count of [1, 10, 1_000]) {
    const add: number[] = [];
    const remove: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const [added, removed] = (["entry-add", "entry-remove"] as const).map((kind) =>
        changes(kind, set, filled, count),
      );
      add.push(await timed(() => apply(sets, added ?? [])));
      remove.push(await timed(() => apply(sets, removed ?? [])));
    }
    row.push(`${count}: +${median(add)} -${median(remove)} ms`);
  }
  const list: number[] = [];
  const check: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    list.push(await timed(() => sets.listEntries(set)));
    check.push(await timed(() => sets.listSets()));
  }
  row.push(`list ${median(list)} ms`, `headers ${median(check)} ms`);
  row.push(
    `empty ${(await timed(() => apply(sets, changes("entry-remove", set, 0, filled)))).toFixed(0)} ms`,
  );
  await sets.destroy(set.name);
  console.log(row.join(" | "));
}

for (let run = 0; run < 2; run += 1) {
  for (const type of Object.keys(entryTexts) as readonly IpSetType[]) {
    for (const [name, sets] of Object.entries(writers)) await measure(name, sets, type);
  }
}
for (const sets of Object.values(writers)) sets.close();
