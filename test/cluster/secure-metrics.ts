/** Installs the chart with a secure metrics server, and scrapes it with and without a permitted token. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { credential, kubectl, type LabCluster } from "./cluster.ts";
import { apply, installKubeIpvs } from "./proxy.ts";

const namespace = "kube-system";
const secretName = "metrics-tls";
/** The path is granted to only one of the accounts. */
const scraper = "scraper";
const stranger = "stranger";

/** Prints a page's status, and whether the page is a proxy's metrics. */
const scrape = `
  const [url, token] = process.argv.slice(1);
  const headers = token === undefined ? {} : { authorization: "Bearer " + token };
  const answer = await fetch(url, { headers });
  console.log(answer.status, (await answer.text()).includes("kubeproxy_"));`;

/** Rejects with the unexpected results. */
export async function trySecureMetrics(cluster: LabCluster): Promise<void> {
  const [node] = cluster.network.nodes;
  if (node === undefined) throw new Error("there is no node");
  await apply(cluster, "secure-metrics", objects(cluster, node.name));
  await installKubeIpvs(cluster, "ipvs", cluster.apiServer, { secureMetrics: { secretName } });
  const ask = async (token: string | undefined): Promise<string> => {
    const url = `https://${node.address}:10261/metrics`;
    const [program = "", ...rest] = cluster.inNetwork(
      ...["env", `NODE_EXTRA_CA_CERTS=${credential(cluster, "ca.crt")}`, process.execPath],
      ...["--input-type=module", "--eval", scrape, "--", url, ...(token ?? "").split(" ")],
    );
    const { stdout } = await promisify(execFile)(program, rest.filter(Boolean));
    return stdout.trim();
  };
  const tokenOf = (account: string): Promise<string | undefined> =>
    kubectl(cluster, "-n", namespace, "create", "token", account);
  const found = {
    "no token": [await ask(undefined), "401 false"],
    "an invalid token": [await ask("invalid"), "401 false"],
    "an account without the right": [await ask(await tokenOf(stranger)), "403 false"],
    "an account with the right": [await ask(await tokenOf(scraper)), "200 true"],
  };
  for (const [who, [answer]] of Object.entries(found)) console.log(`${who}: ${answer}`);
  const wrong = Object.entries(found).flatMap(([who, [answer, expected]]) =>
    answer === expected ? [] : [`${who}: ${answer} instead of ${expected}`],
  );
  if (wrong.length > 0) throw new Error(wrong.join("; "));
}

function objects(cluster: LabCluster, nodeName: string): readonly object[] {
  const file = (name: string): string => readFileSync(credential(cluster, name), "base64");
  const rbac = "rbac.authorization.k8s.io";
  return [
    {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: secretName, namespace },
      type: "kubernetes.io/tls",
      data: { "tls.crt": file(`${nodeName}.crt`), "tls.key": file(`${nodeName}.key`) },
    },
    ...[scraper, stranger].map((name) => ({
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name, namespace },
    })),
    {
      apiVersion: `${rbac}/v1`,
      kind: "ClusterRole",
      metadata: { name: scraper },
      rules: [{ nonResourceURLs: ["/metrics"], verbs: ["get"] }],
    },
    {
      apiVersion: `${rbac}/v1`,
      kind: "ClusterRoleBinding",
      metadata: { name: scraper },
      subjects: [{ kind: "ServiceAccount", name: scraper, namespace }],
      roleRef: { apiGroup: rbac, kind: "ClusterRole", name: scraper },
    },
  ];
}
