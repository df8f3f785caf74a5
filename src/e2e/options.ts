/** The acceptance test's command line. Pure. */
import { parseArgs } from "node:util";
import { allChecks } from "./checks/all-checks.ts";
import type { ReportFormat } from "./report.ts";

export interface E2eOptions {
  /** If empty, the pod's service account is used. */
  readonly kubeconfig: string;
  readonly namespace: string;
  readonly daemonNamespace: string;
  readonly daemonSelector: string;
  /** Image of the test's pods. If undefined, the daemon's image is used. */
  readonly image?: string;
  /** Number of nodes on which the test creates pods. */
  readonly nodeCount: number;
  /** Nodes to test. If empty, all nodes are tested. */
  readonly nodes: readonly string[];
  /** Names of skipped checks. */
  readonly skipped: ReadonlySet<string>;
  readonly format: ReportFormat;
  /** How long a failing check is repeated. */
  readonly patienceMs: number;
  /** Whether to end after reading the nodes, without a change to the cluster. */
  readonly onlyConnects: boolean;
}

export const helpText: string = `kube-ipvs-e2e tests kube-ipvs in a cluster. It creates a namespace with
backends, clients and Services, checks which connections reach them, compares
the kernel of each node with the plan, and removes everything.

Usage: kube-ipvs-e2e [flags]

  --kubeconfig FILE        path of the kubeconfig (default $KUBECONFIG, or
                           the pod's service account)
  --namespace NAME         namespace that the test creates and deletes
                           (default kube-ipvs-e2e)
  --daemon-namespace NAME  namespace of the daemons (default kube-system)
  --daemon-selector LABELS labels of the daemons' pods
                           (default k8s-app in (kube-ipvs,kube-proxy))
  --image IMAGE            image of the test's pods (default: the daemon's)
  --nodes N                number of nodes that get pods; daemons are
                           checked on all nodes (default 3)
  --node NAME,…            test only these nodes, such as the last to migrate
  --skip CHECK,…           skip these checks
  --wait SECONDS           how long to repeat a failing check (default 60)
  -o, --output FORMAT      table or json (default table)
  --only-connect           only check that the API server returns the nodes

Checks:
${allChecks.map(({ name, promise }) => `  ${name.padEnd(18)} ${promise}`).join("\n")}

Exit codes: 0 no check failed, 1 a check failed, 2 the test could not run.
`;

/** Parses the arguments. Undefined if help was requested. Throws if they are invalid. */
export function readOptions(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): E2eOptions | undefined {
  const { values } = parseArgs({
    args: [...args],
    options: {
      help: { type: "boolean", short: "h", default: false },
      kubeconfig: { type: "string", default: environment["KUBECONFIG"] ?? "" },
      namespace: { type: "string", default: "kube-ipvs-e2e" },
      "daemon-namespace": { type: "string", default: "kube-system" },
      "daemon-selector": { type: "string", default: "k8s-app in (kube-ipvs,kube-proxy)" },
      image: { type: "string" },
      nodes: { type: "string", default: "3" },
      node: { type: "string", default: "" },
      skip: { type: "string", default: "" },
      wait: { type: "string", default: "60" },
      output: { type: "string", short: "o", default: "table" },
      "only-connect": { type: "boolean", default: false },
    },
  });
  if (values.help) return undefined;
  return {
    kubeconfig: values.kubeconfig,
    namespace: values.namespace,
    daemonNamespace: values["daemon-namespace"],
    daemonSelector: values["daemon-selector"],
    ...(values.image === undefined ? {} : { image: values.image }),
    nodeCount: wholeNumber("--nodes", values.nodes),
    nodes: listed(values.node),
    skipped: skippedChecks(values.skip),
    format: formatOf(values.output),
    patienceMs: wholeNumber("--wait", values.wait) * 1000,
    onlyConnects: values["only-connect"],
  };
}

function wholeNumber(flag: string, text: string): number {
  const number = Number(text);
  if (Number.isSafeInteger(number) && number > 0) return number;
  throw new Error(`${flag} ${text}: must be a whole number above 0`);
}

function listed(text: string): readonly string[] {
  return text.split(",").filter((name) => name !== "");
}

function skippedChecks(text: string): ReadonlySet<string> {
  const names = listed(text);
  const known = allChecks.map(({ name }) => name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown === undefined) return new Set(names);
  throw new Error(`--skip ${unknown}: no such check; the checks are ${known.join(", ")}`);
}

function formatOf(text: string): ReportFormat {
  if (text === "table" || text === "json") return text;
  throw new Error(`--output ${text}: must be table or json`);
}
