/** The steps of the guides that take a kubeadm cluster from kube-proxy to kube-ipvs and back, as the pages print them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { commandsOf } from "../support/documents/guide-commands.ts";

const docs: string = join(import.meta.dirname, "../../docs");

export interface Step {
  readonly command: string;
  /** What has a ready pod on each node afterwards. */
  readonly serving: readonly ("kube-proxy" | "kube-ipvs")[];
}

/** The one command of a page that begins or ends so. */
function commandOf(page: string, part: string): string {
  const found = new Set(
    commandsOf(readFileSync(join(docs, page), "utf8")).filter(
      (command) => command.startsWith(part) || command.endsWith(part),
    ),
  );
  const [command, ...more] = found;
  if (command === undefined || more.length > 0)
    throw new Error(`docs/${page}: ${found.size} commands with ${part} instead of one`);
  return command;
}

/** `node` is taken over before all others, and given back before them. */
export function migrationSteps(node: string): readonly Step[] {
  const [kubeadm, migrate] = ["migrate/kubeadm.md", "migrate.md"];
  const step = (command: string, first: Step["serving"][0], second: Step["serving"][0]): Step => ({
    command,
    serving: [first, second],
  });
  const withNode = (command: string): string => command.replace("NODE", node);
  return [
    step(commandOf(kubeadm, "> kube-proxy.yaml"), "kube-proxy", "kube-proxy"),
    step(commandOf(kubeadm, "kubectl apply -k"), "kube-proxy", "kube-proxy"),
    step(withNode(commandOf(migrate, "deploy/roll-out start NODE")), "kube-ipvs", "kube-proxy"),
    step(commandOf(migrate, "deploy/roll-out --wave 3"), "kube-ipvs", "kube-ipvs"),
    step(commandOf(migrate, "deploy/roll-out finish"), "kube-ipvs", "kube-ipvs"),
    step(withNode(commandOf(migrate, "deploy/roll-out back NODE")), "kube-proxy", "kube-ipvs"),
    step(commandOf(kubeadm, "deploy/roll-out back --all"), "kube-proxy", "kube-proxy"),
    step(commandOf(kubeadm, "kubectl delete -k"), "kube-proxy", "kube-proxy"),
    step(commandOf(kubeadm, "kubectl replace"), "kube-proxy", "kube-proxy"),
  ];
}
