/** The guides' steps as written on their pages, with the image that serves each node afterwards. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { commandsOf } from "../support/documents/guide-commands.ts";

const pluginFile = "deploy/kubectl-kube_ipvs";
const docs: string = join(import.meta.dirname, "../../docs");

export interface Step {
  readonly command: string;
  /**
   * The image that serves each node afterwards. Undefined if the command starts a rollout that the next step waits for.
   */
  readonly serving: readonly string[] | undefined;
}

function commandsOfPage(page: string): readonly string[] {
  return commandsOf(readFileSync(join(docs, page), "utf8"));
}

/** Returns the only command of a page that begins or ends with `part`. */
function commandOf(page: string, part: string): string {
  const found = new Set(
    commandsOfPage(page).filter((command) => command.startsWith(part) || command.endsWith(part)),
  );
  const [command, ...more] = found;
  if (command === undefined || more.length > 0)
    throw new Error(`docs/${page}: ${found.size} commands with ${part} instead of one`);
  return command;
}

/** The images of the nodes' proxies, before and after the guide's steps. */
export interface Images {
  readonly before: string;
  readonly after: string;
}

/** From kubeadm's kube-proxy to kube-ipvs and back. `node` is the first in both directions. */
export function migrationSteps(node: string, { before, after }: Images): readonly Step[] {
  const [kubeadm, migrate] = ["migrate/kubeadm.md", "migrate.md"];
  const take = stepsOf(node);
  const [old, mixed, young] = [
    [before, before],
    [after, before],
    [after, after],
  ];
  return [
    take(kubeadm, "> kube-proxy.yaml", old),
    take(kubeadm, "kubectl apply -k", old),
    take(migrate, "deploy/roll-out start NODE", mixed),
    take(migrate, "deploy/roll-out --wave 3", young),
    take(migrate, "deploy/roll-out finish", young),
    take(migrate, "deploy/roll-out back NODE", mixed.toReversed()),
    take(kubeadm, "deploy/roll-out back --all", old),
    take(kubeadm, "kubectl delete -k", old),
    take(kubeadm, "kubectl replace", undefined),
    { command: rolledOut("kube-proxy"), serving: old },
    take(kubeadm, "kubectl label nodes", old),
  ];
}

/** From an earlier kube-ipvs to this one and back. `node` is upgraded first. */
export function upgradeSteps(node: string, { before, after }: Images): readonly Step[] {
  const page = "upgrade.md";
  const take = stepsOf(node);
  return [
    take(page, "kubectl kustomize deploy", [before, before]),
    take(page, "kubectl -n kube-system delete pod", [after, before]),
    take(page, "kubectl apply -k deploy", undefined),
    take(page, "kubectl -n kube-system rollout status", [after, after]),
    take(page, "kubectl -n kube-system rollout undo", undefined),
    { command: rolledOut("kube-ipvs"), serving: [before, before] },
  ];
}

export interface ClusterNames {
  readonly node: string;
  readonly zone: string;
  readonly service: string;
  readonly namespace: string;
}

/** Commands that only read, and the two additions that operators install: the acceptance test and the endpoint controller. */
export function operatingCommands(names: ClusterNames): readonly string[] {
  const [install, plugin, controller] = ["install.md", "commands.md", "endpoint-controller.md"];
  const inPod = commandsOfPage("troubleshooting.md")
    .filter((command) => /^POD=|exec \$POD/.test(command))
    .join("\n");
  const commands = [
    commandOf(install, "kubectl -n kube-system rollout status"),
    commandOf(install, pluginFile),
    inPod,
    commandOf(plugin, "install -m 755"),
    ...commandsOfPage(plugin).filter((command) =>
      /^kubectl (?:kube-ipvs -?-?\w|.*\bsysdump )/.test(command),
    ),
    ...commandsOfPage("acceptance.md").filter((command) => command.startsWith("kubectl ")),
    commandOf(controller, "kubectl apply -k"),
    "kubectl -n kube-system rollout status deployment/kube-ipvs-endpoint-controller --timeout=5m",
    "kubectl delete -k deploy/kustomize/endpoint-controller",
  ];
  return [...new Set(commands.map((command) => named(command, names)))];
}

/**
 * Commands that an operator runs while the overlay `observe` is installed. Exit code 2 means that they answered, and that
 * something is wrong or would change.
 */
export function observingCommands(names: ClusterNames): readonly string[] {
  return commandsOfPage("migrate.md")
    .filter((command) => command.startsWith(`${pluginFile} -l k8s-app=kube-ipvs-observe`))
    .map((command) => `${named(command, names)} || [ $? -eq 2 ]`);
}

/** Replaces the guides' placeholders, and waits longer for answers, because programs start slowly on lab nodes. */
function named(command: string, { node, zone, namespace, service }: ClusterNames): string {
  return command
    .replaceAll(/--node [\w-]+/g, `--node ${node}`)
    .replaceAll("=NODE", `=${node}`)
    .replaceAll("zone=a", `zone=${zone}`)
    .replaceAll("NAMESPACE", namespace)
    .replaceAll("NAME", service)
    .replaceAll("exec POD", "exec daemonset/kube-ipvs")
    .replaceAll("/usr/local/bin/", "bin/")
    .replace(/^(?:kubectl kube-ipvs|deploy\/kubectl-kube_ipvs)(?= )/, "$& --timeout 60");
}

/** The commands that remove kube-ipvs and its kernel state from a cluster without kube-proxy. */
export function cleaningCommands(): readonly string[] {
  return commandsOfPage("clean-up.md").filter((command) => /^(?:kubectl|START_)/.test(command));
}

function stepsOf(node: string) {
  return (page: string, part: string, serving: Step["serving"]): Step => ({
    command: commandOf(page, part).replace("NODE", node),
    serving,
  });
}

function rolledOut(name: string): string {
  return `kubectl -n kube-system rollout status daemonset/${name} --timeout=5m`;
}
