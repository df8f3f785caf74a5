/**
 * Tests writes that a kill interrupts or the kernel rejects, and recovery from broken states: see
 * test/faults/README.md.
 */
import { it } from "node:test";
import { describeFaults } from "../faults/describe-faults.ts";
import { brokenStates, recoverByCleanUp, recoverByStart } from "../faults/recovery.ts";
import { kills } from "../faults/rows/kills.ts";
import { netlink } from "../faults/rows/netlink.ts";
import { isLong } from "../support/seeds.ts";

describeFaults([...kills, ...netlink], (node) => {
  for (const state of brokenStates) {
    it(`${state.name}: a start restores the desired state`, () => recoverByStart(node(), state));
    if (!isLong && state.cleansUpInShortForm !== true) continue;
    it(`${state.name}: --cleanup leaves nothing, and a start restores the desired state`, () =>
      recoverByCleanUp(node(), state));
  }
});
