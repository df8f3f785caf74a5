import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { maxEntriesPerMessage } from "../../../../src/kernel/ipset/constants.ts";
import { groupChanges, singleChanges } from "../../../../src/kernel/ipset/messages.ts";
import type { EntryChange } from "../../../../src/kernel/kernel.ts";
import { NetlinkError } from "../../../../src/netlink/errors.ts";
import type { IpSet } from "../../../../src/state/ip-set.ts";
import type { SetEntry } from "../../../../src/state/set-entry.ts";

const one: IpSet = { name: "ONE", type: "hash:ip", family: "IPv4", maxElements: 64 };
const other: IpSet = { ...one, name: "OTHER" };

function change(kind: "add" | "remove", set: IpSet, ...texts: readonly string[]): EntryChange[] {
  return texts.map((text) => ({ kind: `entry-${kind}`, set, entry: text as SetEntry }));
}

/** Formats each message as its command, set and change indices, such as `add ONE 0 1`. */
function summary({ messages }: ReturnType<typeof groupChanges>): readonly string[] {
  return messages.map(
    ({ request, indices }) => `${request.command} ${request.set.name} ${indices.join(" ")}`,
  );
}

const refusal = new NetlinkError({ operation: "add to set", subject: "ONE", errno: 4097 });

describe("entry changes", () => {
  it("share a message as long as the kind and the set stay the same", () => {
    const grouped = groupChanges([
      ...change("add", one, "10.0.0.1", "10.0.0.2"),
      ...change("add", other, "10.0.0.1"),
      ...change("remove", other, "10.0.0.2", "10.0.0.3"),
      ...change("add", one, "10.0.0.3"),
    ]);
    assert.deepEqual(summary(grouped), [
      "add ONE 0 1",
      "add OTHER 2",
      "remove OTHER 3 4",
      "add ONE 5",
    ]);
  });

  it("start a new message when one is full", () => {
    const texts = Array.from(
      { length: maxEntriesPerMessage * 2 + 1 },
      (_, index) => `10.0.0.${index % 256}`,
    );
    const sizes = groupChanges(change("add", one, ...texts)).messages.map(
      ({ indices }) => indices.length,
    );
    assert.deepEqual(sizes, [maxEntriesPerMessage, maxEntriesPerMessage, 1]);
  });

  it("omit entries that do not fit the set's type, with a reason", () => {
    const grouped = groupChanges(
      change("add", one, "10.0.0.1", "10.0.0.2,tcp:80", "nonsense", "10.0.0.3"),
    );
    assert.deepEqual(summary(grouped), ["add ONE 0 3"]);
    assert.deepEqual(
      grouped.unusable.map(({ index, error }) => [index, error.message]),
      [
        [
          1,
          "Cannot add to set ONE: 10.0.0.2,tcp:80: EINVAL (Entry 10.0.0.2,tcp:80 does not fit a hash:ip set)",
        ],
        [2, "Cannot add to set ONE: nonsense: EINVAL (Not a set entry: nonsense)"],
      ],
    );
  });

  it("are resent one by one starting with the rejected message, only for its set", () => {
    const { messages } = groupChanges([
      ...change("add", one, "10.0.0.1"),
      ...change("add", other, "10.0.0.1"),
      ...change("remove", one, "10.0.0.1", "10.0.0.2"),
      ...change("add", other, "10.0.0.2"),
      ...change("add", one, "10.0.0.3"),
    ]);
    const [, , refused] = messages;
    assert.ok(refused);
    const singles = singleChanges(messages, [{ message: refused, error: refusal }]);
    assert.deepEqual(summary({ messages: singles, unusable: [] }), [
      "remove ONE 2",
      "remove ONE 3",
      "add ONE 5",
    ]);
    assert.ok(singles.every(({ request }) => request.entries.length === 1));
  });
});
