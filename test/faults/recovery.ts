/** Broken states of the kernel, and the two ways out of each: a start, and `--cleanup` and a start. */
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { shell } from "../support/netns/network-namespace.ts";
import { Program } from "../support/program.ts";
import type { World } from "./world.ts";

export interface BrokenState {
  readonly name: string;
  /** Called when the program is dead. */
  readonly shellLines: string;
}

export const brokenStates: readonly BrokenState[] = [
  { name: "killed in a burst of changes", shellLines: "true" },
  { name: "virtual servers cleared", shellLines: "ipvsadm -C" },
  {
    name: "half of the virtual servers gone",
    shellLines: "ipvsadm -Sn | grep -- ^-A | awk 'NR % 2 { print \"-D\", $2, $3 }' | ipvsadm -R",
  },
  { name: "sets empty", shellLines: "ipset flush" },
  { name: "link gone", shellLines: "ip link delete kube-ipvs0" },
  { name: "rules flushed", shellLines: "iptables -t nat -F; iptables -t filter -F" },
  {
    name: "rules and sets gone",
    shellLines:
      "iptables -t nat -F; iptables -t nat -X; iptables -t filter -F; iptables -t filter -X; ipset destroy",
  },
];

/** Kills the program in a burst of changes, then breaks the kernel's state. */
async function breakState(world: World, { shellLines }: BrokenState): Promise<void> {
  await world.churn(60);
  await pause(20);
  world.program.kill("SIGKILL");
  await world.program.ends();
  shell(shellLines);
}

/** Resolves when the start alone reached the plan. */
export async function recoverByStart(world: World, state: BrokenState): Promise<void> {
  await breakState(world, state);
  world.startProgram();
  await world.serves();
  await world.repaired();
}

/** Resolves when nothing was left by `--cleanup` and the start after it reached the plan. */
export async function recoverByCleanUp(world: World, state: BrokenState): Promise<void> {
  await breakState(world, state);
  const cleanUp = new Program(["--cleanup"]);
  const { code } = await cleanUp.ends();
  assert.equal(code, 0, cleanUp.output);
  assert.deepEqual(nothingLeft(), { servers: "", entries: "", rules: "", link: "" });
  world.startProgram();
  await world.serves();
  await world.repaired();
}

function nothingLeft(): Readonly<Record<"servers" | "entries" | "rules" | "link", string>> {
  const link = shell("ip -o link show dev kube-ipvs0 2>/dev/null || true");
  const rules = shell("iptables-save | grep KUBE || true");
  const servers = shell("ipvsadm -Sn").trim();
  const entries = shell("ipset save | grep KUBE || true");
  return { servers, entries, rules, link };
}
