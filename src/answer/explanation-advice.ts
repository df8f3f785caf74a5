/** Advice for the findings of an explanation. Pure. */
import type { Explanation } from "./explanation.ts";

/** Sentences for the operator. Empty if nothing is wrong. */
export function adviceOn(explanation: Explanation): readonly string[] {
  return [drift, foreignRules, noEndpoints, failedProbes, unanswered, staleEntries].flatMap(
    (find) => find(explanation),
  );
}

function drift({ differences }: Explanation): readonly string[] {
  if (differences.length === 0) return [];
  return [
    "A third party changed the kernel's state. The next verification (kubeIpvs.verificationPeriod) or restart repairs it; kube-ipvs status shows whether the repair is reverted.",
  ];
}

/** Other software's rules along the path, if packets do not take the planned path. */
function foreignRules({ packets, differences }: Explanation): readonly string[] {
  if (differences.length > 0) return [];
  const steps = packets
    .filter(({ planned }) => planned !== undefined)
    .flatMap(({ path, deliveries }) => [...path, ...deliveries.flatMap((one) => one.path)])
    .filter(({ isPlanned, isMaybe }) => !isPlanned && isMaybe !== true)
    .map(({ table, chain, rule }) => `${table} ${chain} ${rule}`);
  return [...new Set(steps)].map((rule) => `Remove the other software's rule: ${rule}`);
}

function noEndpoints({ service, endpoints }: Explanation): readonly string[] {
  if (service === undefined || endpoints.some(({ ready, serving }) => ready || serving)) return [];
  const { namespace, name } = service;
  return [
    `Service ${namespace}/${name} has no ready endpoint: compare its selector with the pods' labels, and see kubectl -n ${namespace} get endpointslices -l kubernetes.io/service-name=${name}`,
  ];
}

function failedProbes({ probes = [] }: Explanation): readonly string[] {
  return probes.flatMap(({ endpoint, error }) => {
    if (error === undefined) return [];
    if (error === "ECONNREFUSED")
      return [`Nothing is listening on ${endpoint}: check the pod and the Service's targetPort`];
    return [silentText(endpoint)];
  });
}

function unanswered({ connections: { unanswered: found = [] } }: Explanation): readonly string[] {
  return found.map(
    ({ realServer, connections }) =>
      `New connections without an answer: ${connections} (kube-ipvs explain --probe tries one). ${silentText(realServer)}`,
  );
}

function silentText(endpoint: string): string {
  const host = endpoint.slice(0, endpoint.lastIndexOf(":")).replaceAll(/[[\]]/g, "");
  return `${endpoint} does not answer: check whether the pod exists, then check the network plugin and its policies (ip route get ${host}; ip neigh show ${host})`;
}

/** A client that keeps its UDP port keeps its conntrack entry, regardless of the rules. */
export function staleEntries({
  protocol,
  mode,
  address,
  endpoints,
  connections,
}: Pick<
  Explanation,
  "protocol" | "mode" | "address" | "endpoints" | "connections"
>): readonly string[] {
  if (protocol !== "UDP" || mode === "userspace") return [];
  const known = new Set(endpoints.map((one) => `${one.address}:${one.port}`));
  const stale = connections.conntrack.filter(({ answeredBy }) => !known.has(plain(answeredBy)));
  return stale.map(
    ({ client, answeredBy }) =>
      `A conntrack entry sends datagrams from ${client} to ${answeredBy}, which is not an endpoint: run conntrack -D -p udp --orig-dst ${address}`,
  );
}

function plain(hostPort: string): string {
  return hostPort.replaceAll(/[[\]]/g, "");
}
