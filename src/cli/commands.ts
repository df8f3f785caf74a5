/** All commands besides the daemon itself. The parser, the help and the completion use this list. */
import type { Command, Example } from "./command.ts";
import { compareCommand } from "./commands/compare.ts";
import { completionCommand } from "./commands/completion.ts";
import { doctorCommand } from "./commands/doctor.ts";
import { drainsCommand } from "./commands/drains.ts";
import { endpointControllerCommand } from "./commands/endpoint-controller.ts";
import { explainCommand } from "./commands/explain.ts";
import { historyCommand } from "./commands/history.ts";
import { planCommand } from "./commands/plan.ts";
import { servicesCommand } from "./commands/services.ts";
import { showCommand } from "./commands/show.ts";
import { statusCommand } from "./commands/status.ts";
import { sysdumpCommand } from "./commands/sysdump.ts";
import { topCommand } from "./commands/top.ts";
import { versionCommand } from "./commands/version.ts";
import { waitCommand } from "./commands/wait.ts";

export const commands: readonly Command[] = [
  statusCommand,
  servicesCommand,
  explainCommand,
  compareCommand,
  drainsCommand,
  historyCommand,
  topCommand,
  doctorCommand,
  planCommand,
  sysdumpCommand,
  showCommand,
  completionCommand,
  endpointControllerCommand,
  versionCommand,
  waitCommand,
];

export const daemonExamples: readonly Example[] = [
  {
    command: "kube-ipvs --config /var/lib/kube-proxy/config.conf",
    purpose: "run the daemon on a node, using kube-proxy's configuration",
  },
  {
    command: "kube-ipvs --manifests ./services",
    purpose: "run the daemon without a cluster, using objects from YAML files",
  },
  {
    command: "kube-ipvs --cleanup",
    purpose: "remove all kernel state of kube-ipvs from this node",
  },
];
