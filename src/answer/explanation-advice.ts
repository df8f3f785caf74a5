/** Advice for the findings of an explanation. Pure. */
import type { Explanation, PacketLoss, TrackedConnection } from "./explanation.ts";

/** Sentences for the operator. Empty if nothing is wrong. */
export function adviceOn(explanation: Explanation): readonly string[] {
  return [drift, foreignRules, losses, noEndpoints, failedProbes, unanswered, staleFlows].flatMap(
    (find) => find(explanation),
  );
}

function drift({ differences }: Explanation): readonly string[] {
  if (differences.length === 0) return [];
  return [
    "A third party changed the kernel's state. The next verification (kubeIpvs.verificationPeriod) or a restart repairs it; kube-ipvs status shows whether the third party keeps reverting the repair.",
  ];
}

/** Other software's rules along the path, if packets do not take the planned path. */
function foreignRules({ packets, differences }: Explanation): readonly string[] {
  if (differences.length > 0) return [];
  const steps = packets
    .filter(({ planned }) => planned !== undefined)
    .flatMap(({ path, deliveries }) => [...path, ...deliveries.flatMap((one) => one.path)])
    .filter(({ isPlanned, isMaybe }) => !isPlanned && isMaybe !== true)
    .map(({ table, chain, rule }) =>
      table === "IPVS"
        ? `Remove the other software's virtual server ${chain} (ipvsadm -D -f), or the rule that sets this mark`
        : `Remove the other software's rule: ${table} ${chain} ${rule}`,
    );
  return [...new Set(steps)];
}

/** Losses that rules do not cause. */
function losses({ packets }: Explanation): readonly string[] {
  const found = packets.flatMap((one) => (one.planned === undefined ? one.losses : []));
  const text = remedyFor(found);
  return found.length === 0 ? [] : [text.charAt(0).toUpperCase() + text.slice(1)];
}

/** What to do about packets that are lost. */
export function remedyFor(found: readonly PacketLoss[]): string {
  const causes = found.map(({ cause }) => cause);
  if (causes.every((cause) => cause.includes("ip route get")))
    return "correct the route, which is usually written by the network plugin";
  const sysctls = causes.map((cause) => /(net\.\S+) is 0, so/.exec(cause)?.[1]);
  if (!sysctls.includes(undefined))
    return `set ${[...new Set(sysctls)].join(" and ")} to 1 with sysctl -w, and in /etc/sysctl.d`;
  return "configure the software that wrote the rule to accept packets to Services and their replies (iptables-save or nft list ruleset shows the rule)";
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

/** Omitted if packets are lost for a known reason. */
function unanswered({ connections, packets }: Explanation): readonly string[] {
  if (packets.some((one) => one.losses.length > 0)) return [];
  return (connections.unanswered ?? []).map(
    ({ realServer, connections }) =>
      `Unanswered new connections: ${connections} (kube-ipvs explain --probe opens a test connection). ${silentText(realServer)}`,
  );
}

function silentText(endpoint: string): string {
  const host = endpoint.slice(0, endpoint.lastIndexOf(":")).replaceAll(/[[\]]/g, "");
  return `${endpoint} does not answer: check whether the pod exists, then check the network plugin and its policies (ip route get ${host}; ip neigh show ${host})`;
}

/**
 * The conntrack entries that send datagrams to an address that is not an endpoint. A client that keeps its UDP port
 * keeps its entry, regardless of the rules.
 */
export function staleEntries({
  protocol,
  mode,
  endpoints,
  connections,
}: Pick<
  Explanation,
  "protocol" | "mode" | "endpoints" | "connections"
>): readonly TrackedConnection[] {
  if (protocol !== "UDP" || mode === "userspace") return [];
  const known = new Set(endpoints.map((one) => `${one.address}:${one.port}`));
  return connections.conntrack.filter(({ answeredBy }) => !known.has(plain(answeredBy)));
}

function staleFlows(explanation: Explanation): readonly string[] {
  const { address } = explanation;
  return staleEntries(explanation).map(
    ({ client, answeredBy }) =>
      `A conntrack entry sends datagrams from ${client} to ${answeredBy}, which is not an endpoint: run conntrack -D -p udp --orig-dst ${address}`,
  );
}

function plain(hostPort: string): string {
  return hostPort.replaceAll(/[[\]]/g, "");
}
