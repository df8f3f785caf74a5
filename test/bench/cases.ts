/** Every case, in the order of the target table. */
import type { Case } from "./case.ts";
import { apiLoadCases } from "./cases/api-load.ts";
import { busyNodeCases } from "./cases/busy-node.ts";
import { changeCases } from "./cases/change.ts";
import { countCases } from "./cases/counts.ts";
import { dataPlaneCases } from "./cases/data-plane.ts";
import { explainCases } from "./cases/explain.ts";
import { firstSyncCases } from "./cases/first-sync.ts";
import { iptablesCases } from "./cases/iptables.ts";
import { largeNodeCases } from "./cases/large-node.ts";
import { memoryCases } from "./cases/memory.ts";
import { ownCostCases } from "./cases/own-cost.ts";
import { portRangeCases } from "./cases/port-ranges.ts";
import { rulesCases } from "./cases/rules.ts";
import { startUpCases } from "./cases/start-up.ts";
import { tunnelCases } from "./cases/tunnels.ts";
import { userspaceCases } from "./cases/userspace.ts";

export const cases: readonly Case[] = [
  ...changeCases,
  ...countCases,
  ...firstSyncCases,
  ...largeNodeCases,
  ...explainCases,
  ...busyNodeCases,
  ...memoryCases,
  ...startUpCases,
  ...apiLoadCases,
  ...dataPlaneCases,
  ...tunnelCases,
  ...portRangeCases,
  ...iptablesCases,
  ...ownCostCases,
  ...userspaceCases,
  ...rulesCases,
];
