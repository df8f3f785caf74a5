/**
 * Prints the kernel state that this build leaves for `objects.ts`, to be kept as states/VERSION-DATE.json: before a change
 * of what is written to the kernel, `node test/lab/boot.ts -- node test/upgrade/record.ts`.
 */
import { nodeSetUp } from "../golden/node-world.ts";
import { observeKernel } from "../golden/observe.ts";
import { withLabDaemon } from "../support/lab-daemon.ts";
import { withNetworkNamespace } from "../support/netns/network-namespace.ts";
import { objects } from "./objects.ts";

await withNetworkNamespace("upgrade", nodeSetUp, () =>
  withLabDaemon(objects, {}, async () => {
    console.log(JSON.stringify(await observeKernel([]), undefined, 2));
  }),
);
