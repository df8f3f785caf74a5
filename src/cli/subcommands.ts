/** The table of commands besides the daemon itself. Parser, help, completion and man pages are made of it. */
import { topFormats, topSortKeys } from "../top/options.ts";
import type { Flag } from "./flags.ts";

export interface Example {
  readonly command: string;
  /** What it is for, in a few words. */
  readonly purpose: string;
}

/** An option that only one command has. */
export interface CommandOption extends Omit<Flag, "alias" | "group"> {
  /** Values that it takes; absent: any. */
  readonly choices?: readonly string[];
}

export interface Subcommand {
  readonly name: string;
  /** What stands behind the name in the usage line: `[NAME] [flags]`; absent: `[flags]`. */
  readonly usage?: string;
  /** One line for the list of commands. */
  readonly summary: string;
  /** For its own help: paragraphs, a line each, however long. */
  readonly description: string;
  readonly options: readonly CommandOption[];
  /** Others take the daemon's flags, besides their own options, which alone their help lists. */
  readonly hasOwnFlagsOnly?: true;
  /** It runs until it is stopped and logs as the daemon does. */
  readonly runsOn?: true;
  /** It works with an empty mode in a configuration file, because it serves and plans nothing. */
  readonly needsNoMode?: true;
  /** One that is no flag. */
  readonly takesArgument?: true;
  /** Words that its first argument may be; absent: any. */
  readonly argumentChoices?: readonly string[];
  readonly examples: readonly Example[];
}

/** `-o FORMAT`; the first format is the default. */
function outputOption(formats: readonly [string, ...string[]]): CommandOption {
  const help = `form of the output: ${formats.join(", ")}`;
  return { ...valueOption("output", "format", help, formats[0]), short: "o", choices: formats };
}

function valueOption(
  name: string,
  placeholder: string,
  help: string,
  byDefault: string = "",
): CommandOption {
  return { name, isBoolean: false, placeholder, help, default: byDefault };
}

/** Of the daemon itself. */
export const daemonExamples: readonly Example[] = [
  {
    command: "kube-ipvs --config /var/lib/kube-proxy/config.conf --hostname-override $(hostname)",
    purpose: "run on a node with kube-proxy's configuration",
  },
  {
    command: "kube-ipvs --manifests ./services",
    purpose: "run without a cluster, with Services and EndpointSlices from YAML files",
  },
  {
    command: "kube-ipvs --cleanup",
    purpose: "remove all kernel state of kube-ipvs from this node",
  },
];

/** `--name`, or `--name=true|false`. */
function switchOption(name: string, help: string, short?: string): CommandOption {
  return {
    name,
    ...(short === undefined ? {} : { short }),
    isBoolean: true,
    placeholder: "true|false",
    help,
    default: "false",
    choices: ["true", "false"],
  };
}

const namespaceOption: CommandOption = {
  ...valueOption("namespace", "namespace", "namespace of the Services", "default"),
  short: "n",
};

const watchOption: CommandOption = switchOption(
  "watch",
  "print again after changes, until interrupted",
  "w",
);

export const subcommands: readonly Subcommand[] = [
  {
    name: "status",
    summary: "print whether the daemon on this node works, and what is wrong",
    description:
      "Prints a verdict on the kube-ipvs daemon of this node, then its state. It asks the " +
      "daemon's operator socket (kubeIpvs.operatorSocket).\n" +
      "Exit codes: 0 OK, 1 starting, degraded or error, 2 not running.",
    options: [outputOption(["text", "json", "yaml"])],
    needsNoMode: true,
    examples: [
      {
        command: "kubectl -n kube-system exec ds/kube-ipvs -- kube-ipvs status",
        purpose: "from a workstation",
      },
      { command: "kube-ipvs status -o json", purpose: "for scripts" },
    ],
  },
  {
    name: "services",
    usage: "[NAME] [flags]",
    summary: "print the virtual servers of Services, and why endpoints get no traffic",
    description:
      "Prints one line per address, port and protocol of the Services on this node. With a " +
      "NAME or -o wide it also prints the endpoints, their connections in the kernel, and why " +
      "an endpoint is not used.\n" +
      "It asks the daemon's operator socket. Without a running daemon it shows what a start " +
      "would find.\n" +
      "Exit codes: 0 printed, 1 error, or no Service has this NAME.",
    options: [
      outputOption(["table", "wide", "json", "yaml", "name"]),
      namespaceOption,
      switchOption("all-namespaces", "Services of all namespaces", "A"),
      watchOption,
    ],
    takesArgument: true,
    examples: [
      { command: "kube-ipvs services -A", purpose: "all virtual servers of this node" },
      {
        command: "kube-ipvs services web -n shop",
        purpose: "one Service with its endpoints and connections",
      },
      { command: "kube-ipvs services -A -o json", purpose: "everything, for scripts" },
    ],
  },
  {
    name: "explain",
    usage: "svc/NAME | ADDRESS:PORT[/udp] | --from ADDRESS --to ADDRESS:PORT[/udp]",
    summary: "trace packets to a Service rule by rule and explain the outcome",
    description:
      "Traces packets to a Service or an address. It prints the verdict, then each rule and set " +
      "entry on the way, the virtual server, and why each endpoint is used or not.\n" +
      "It reads the kernel, and asks the daemon's operator socket for the plan. Without a " +
      "running daemon it plans as a start would. It changes nothing.\n" +
      "Exit codes: 0 for any verdict, 1 error.",
    options: [
      outputOption(["text", "short", "json", "yaml"]),
      namespaceOption,
      valueOption(
        "from",
        "address",
        "packet source: a client IP, or node for a local process (default: node, pods and external clients)",
      ),
      valueOption(
        "to",
        "address:port[/protocol]",
        "packet destination; the protocol is tcp, udp or sctp, or ADDRESS/icmp for ping",
      ),
    ],
    takesArgument: true,
    examples: [
      { command: "kube-ipvs explain svc/web -n shop", purpose: "every address of a Service" },
      { command: "kube-ipvs explain svc/web -o short", purpose: "only verdicts and differences" },
      { command: "kube-ipvs explain 10.96.0.10:53/udp", purpose: "one address and port" },
      {
        command: "kube-ipvs explain --from 10.244.1.7 --to 10.96.0.10:80",
        purpose: "packets of one client, with its connections",
      },
      {
        command: "kube-ipvs explain 10.96.0.10:80 -o json | jq '.items[].differences'",
        purpose: "differences between kernel and plan, for scripts",
      },
    ],
  },
  {
    name: "drains",
    summary: "print the real servers that drain",
    description:
      "Prints the real servers of removed endpoints whose connections are still open, the " +
      "oldest first.\n" +
      "It asks the daemon's operator socket. Without a running daemon it shows what a start " +
      "would find.\n" +
      "Exit codes: 0 printed, 1 error.",
    options: [outputOption(["table", "json", "yaml"]), watchOption],
    needsNoMode: true,
    examples: [{ command: "kube-ipvs drains --watch", purpose: "keep printing after changes" }],
  },
  {
    name: "top",
    usage: "[FILTER] [flags]",
    summary: "show live connections and bytes per second by Service",
    description:
      "Shows connections and bytes per second and open connections by Service port, and by " +
      "endpoint on enter. It reads the kernel's counters. The daemon supplies the names of " +
      "Services, or the cluster or manifests if no daemon runs.\n" +
      "Without a terminal, or with -b, it prints one table of two readings. FILTER selects " +
      "rows that contain this text.\n" +
      "Keys: enter endpoints, esc back, / filter, c i o a n s sort, r reverse, space pause, q " +
      "quit.\n" +
      "Exit codes: 0 shown, 1 error.",
    options: [
      switchOption("batch", "print one table and exit", "b"),
      { ...outputOption(topFormats), help: "output format: table, json (implies --batch)" },
      valueOption(
        "interval",
        "duration",
        "time between two readings, 2s to 1h; the kernel updates its counters every 2 s",
        "2s",
      ),
      {
        ...valueOption(
          "sort",
          "key",
          `sort in descending order by ${topSortKeys.join(", ")}`,
          "connections",
        ),
        choices: topSortKeys,
      },
    ],
    takesArgument: true,
    needsNoMode: true,
    examples: [
      {
        command: "kubectl -n kube-system exec -it POD -- kube-ipvs top",
        purpose: "the node of this pod",
      },
      {
        command: "kube-ipvs top shop/ --sort out",
        purpose: "Services of one namespace, by bytes out",
      },
      {
        command: "kube-ipvs top -o json --interval 10s",
        purpose: "rates over ten seconds, for scripts",
      },
    ],
  },
  {
    name: "doctor",
    summary: "check this node: kernel, settings, other proxies, API server",
    description:
      "Checks whether this node has what kube-ipvs needs, and changes nothing.\n" +
      "Exit codes by the worst verdict: 0 ok, 1 warn, unknown or error, 2 fail.",
    options: [
      outputOption(["table", "json", "yaml"]),
      switchOption(
        "before-install",
        "check a node without kube-ipvs, and skip checks that need a running one",
      ),
    ],
    examples: [
      {
        command: "kube-ipvs doctor --config /var/lib/kube-proxy/config.conf",
        purpose: "a node with kube-ipvs",
      },
      {
        command: "kube-ipvs doctor --before-install",
        purpose: "a node before installation, without cluster or configuration",
      },
      {
        command: "kube-ipvs doctor -o json | jq '.checks[] | select(.verdict != \"ok\")'",
        purpose: "all problems, for scripts",
      },
    ],
  },
  {
    name: "plan",
    summary: "print what a sync would change in this kernel",
    description:
      "Prints what a sync would change in this kernel, and changes nothing. In userspace mode " +
      "it also prints the listeners that a start would open. With --cleanup it prints what " +
      "kube-ipvs --cleanup would remove.\n" +
      "Exit codes: 0 no change, 2 changes, 1 error.",
    options: [outputOption(["text", "json", "yaml"])],
    examples: [
      {
        command: "kube-ipvs plan --config /var/lib/kube-proxy/config.conf",
        purpose: "changes of a takeover from kube-proxy on this node",
      },
      { command: "kube-ipvs plan --manifests ./services -o json", purpose: "without a cluster" },
      { command: "kube-ipvs plan --cleanup", purpose: "what kube-ipvs --cleanup would remove" },
    ],
  },
  {
    name: "completion",
    usage: "bash|zsh|fish",
    summary: "print a completion script for a shell",
    description: "Prints a script that completes commands and flags in a shell.",
    options: [],
    hasOwnFlagsOnly: true,
    takesArgument: true,
    argumentChoices: ["bash", "zsh", "fish"],
    examples: [
      {
        command: "kube-ipvs completion bash > /etc/bash_completion.d/kube-ipvs",
        purpose: "for every bash on this machine",
      },
      { command: "source <(kube-ipvs completion zsh)", purpose: "for this zsh" },
      { command: "kube-ipvs completion fish | source", purpose: "for this fish" },
    ],
  },
  {
    name: "endpoint-controller",
    summary: "create EndpointSlices from Pods, in a cluster without kube-controller-manager",
    description:
      "Keeps the EndpointSlices of Services with selectors up to date with their Pods, until " +
      "it is stopped. It uses the daemon's flags for the API server, the relist guard and " +
      "logging, and changes no kernel state.\n" +
      "It skips Services whose EndpointSlices another controller manages.",
    options: [],
    runsOn: true,
    needsNoMode: true,
    examples: [
      {
        command: "kube-ipvs endpoint-controller --kubeconfig /etc/kubernetes/endpoints.conf",
        purpose: "outside the cluster, as a single instance",
      },
      { command: "kube-ipvs endpoint-controller", purpose: "in a pod, with its service account" },
    ],
  },
];
