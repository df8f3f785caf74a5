/** Events between two cluster changes: syncs, and failures on a node. */
import fc from "fast-check";
import { errno } from "../../../src/base/errno.ts";
import type { NodeAddress } from "../../../src/kernel/kernel.ts";
import { nodeAddress, standardNodeAddresses } from "../fake-kernel/fake-link.ts";
import type { FakeNode } from "../fake-node.ts";
import { clusterFlags } from "./changes.ts";

export type Interlude =
  | { readonly kind: "none" | "sync" | "restart" | "lose-reply" | "connect" | "disconnect" }
  /** The kernel rejects the n-th subsequent change. */
  | { readonly kind: "refuse"; readonly nth: number; readonly errno: number }
  /** The program is killed before its n-th kernel change, and restarted. */
  | { readonly kind: "kill"; readonly nth: number }
  | { readonly kind: "move"; readonly addresses: readonly NodeAddress[] }
  /** These settings apply from now on, without a restart. */
  | { readonly kind: "configure"; readonly flags: Readonly<Record<string, string>> };

const nths = fc.integer({ min: 1, max: 40 });

const accidents: fc.Arbitrary<Interlude> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.constantFrom<Interlude>(
      { kind: "restart" },
      { kind: "lose-reply" },
      { kind: "connect" },
      { kind: "disconnect" },
    ),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("refuse" as const),
      nth: nths,
      errno: fc.constantFrom(errno.EPERM, errno.ENOBUFS, errno.EBUSY, errno.EEXIST),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("kill" as const), nth: nths }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("configure" as const), flags: clusterFlags }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("move" as const),
      addresses: fc.constantFrom(
        standardNodeAddresses,
        standardNodeAddresses.slice(0, -1),
        [...standardNodeAddresses, nodeAddress("198.51.100.1", 24, 3)],
        [...standardNodeAddresses, nodeAddress("192.168.10.12", 24, 2)],
      ),
    }),
  },
);

const none = fc.constant<Interlude>({ kind: "none" });
const sync = fc.constant<Interlude>({ kind: "sync" });

/** Generates `count` interludes, one to follow each change. In a sequence, all are syncs; or a few are syncs and the
 * others do nothing; or a few are also failures or other events on the node. */
export function interludes(count: number): fc.Arbitrary<readonly Interlude[]> {
  const some = fc.oneof({ weight: 3, arbitrary: none }, { weight: 1, arbitrary: sync });
  const any = fc.oneof({ weight: 5, arbitrary: some }, { weight: 1, arbitrary: accidents });
  const lengths = { minLength: count, maxLength: count };
  return fc.oneof(...[sync, some, any].map((each) => fc.array(each, lengths)));
}

export async function undergo(interlude: Interlude, node: FakeNode): Promise<void> {
  switch (interlude.kind) {
    case "none":
      return;
    case "sync":
      return node.settle();
    case "restart":
      return node.restart();
    case "kill":
      return node.kill(interlude.nth);
    case "connect":
      return node.connect(1);
    case "disconnect":
      return node.connect(0);
    case "lose-reply":
      return node.kernel.operations.loseReplyWhere(() => true);
    case "refuse":
      return node.kernel.operations.failNth(interlude.nth, interlude.errno);
    case "move":
      // If an address disappears before kube-ipvs notices it, kube-ipvs no longer recognizes a virtual server on it as
      // its own.
      await node.settle();
      node.kernel.link.setNodeAddresses(interlude.addresses);
      return node.settle();
    case "configure":
      return node.reconfigure({ ...node.flags, ...interlude.flags });
  }
}
