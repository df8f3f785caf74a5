/**
 * State file sections about ownership: docs/decisions/0013 and 0016. They record which virtual servers are ours or
 * foreign if the ipsets do not show that, and which Service owns an address that several Services claim. They are
 * written after the kernel is changed. If the program is killed in between, the next run relies on the kernel state.
 */
import { isRecord } from "../../base/is-record.ts";
import { toServiceName } from "../../base/service-name.ts";
import type { ClaimKey, Holder, Holders } from "../../plan/claims/claim.ts";
import { toClaimKey } from "../../plan/claims/claimed-keys.ts";
import type { HolderRecord } from "../../plan/claims/holder-record.ts";
import type { OwnershipRecord } from "../../reconcile/ownership/ownership.ts";
import { type ServerKey, toServerKey } from "../../state/virtual-server.ts";
import { type KeptState, textsIn } from "./state-file.ts";

/**
 * Maximum number of keys to record, which limits the size of the file. It is more than all node ports on a few
 * addresses. A key has at most about 60 characters.
 */
const maxKeys = 20_000;
/**
 * Maximum total length of keys and owners' names. Names have up to 317 characters, and a file that is too large is not
 * read at all. If an owner is not recorded, the ages of the claims determine it after a restart.
 */
const maxHolderNamesLength = 2 ** 19;

/** Records which virtual servers are ours and which are foreign, by key. */
export function ownershipRecordIn(state: KeptState): OwnershipRecord {
  const { content } = state;
  return {
    recorded: { owned: keysFrom(content["owned"]), foreign: keysFrom(content["foreign"]) },
    keep(ownership) {
      const [owned, foreign] = [keysOf(ownership.owned), keysOf(ownership.foreign)];
      state.keep({ owned: () => owned, foreign: () => foreign });
    },
    idle: () => state.idle(),
  };
}

export function holderRecordIn(state: Pick<KeptState, "content" | "keep">): HolderRecord {
  return {
    held: holdersFrom(state.content["holders"]),
    keepHolders(...all) {
      const holders = all.flatMap((some) => [...some]);
      state.keep({ holders: () => holdersContent(holders) });
    },
  };
}

/**
 * For each key: the Service's name, and its creation time in seconds since the epoch. Undefined if nothing is
 * contested.
 */
function holdersContent(
  holders: readonly (readonly [string, Holder])[],
): Readonly<Record<string, readonly [string, number]>> | undefined {
  if (holders.length === 0) return undefined;
  const entries: [string, [string, number]][] = [];
  let length = 0;
  for (const [key, { service, createdAtSeconds }] of holders) {
    length += key.length + service.length;
    if (entries.length === maxKeys || length > maxHolderNamesLength) break;
    entries.push([key, [service, createdAtSeconds]]);
  }
  return Object.fromEntries(entries);
}

function holdersFrom(value: unknown): Holders {
  if (!isRecord(value)) return new Map();
  const entries = Object.entries(value).slice(0, maxKeys);
  return new Map(
    entries.flatMap(([key, holder]): (readonly [ClaimKey, Holder])[] => {
      if (!Array.isArray(holder)) return [];
      const [service, createdAtSeconds] = holder as readonly unknown[];
      if (typeof service !== "string" || typeof createdAtSeconds !== "number") return [];
      return [[toClaimKey(key), { service: toServiceName(service), createdAtSeconds }]];
    }),
  );
}

/** Returns undefined if there are no keys, which removes the section. */
function keysOf(keys: ReadonlySet<ServerKey>): readonly string[] | undefined {
  return keys.size === 0 ? undefined : [...keys].slice(0, maxKeys);
}

function keysFrom(value: unknown): ReadonlySet<ServerKey> {
  return new Set(textsIn(value).slice(0, maxKeys).map(toServerKey));
}
