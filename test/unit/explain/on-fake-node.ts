/** Runs `kube-ipvs explain` on a daemon with a fake kernel, in any mode. */
import assert from "node:assert/strict";
import type { Destination } from "../../../src/answer/answers.ts";
import type { Explanation } from "../../../src/answer/explanation.ts";
import type { IpAddress } from "../../../src/base/ip.ts";
import { planFacts } from "../../../src/daemon/operator/plan-facts.ts";
import { type ExplainOptions, explainWith } from "../../../src/explain/explain.ts";
import type { From } from "../../../src/explain/origins.ts";
import type { ExplainReaders } from "../../../src/explain/read/read-families.ts";
import type { ListeningSocket } from "../../../src/kernel/listening-sockets.ts";
import type { Route, Routes } from "../../../src/kernel/route.ts";
import type { Flow } from "../../../src/state/flow.ts";
import type { MarkRule } from "../../../src/state/mark-rule.ts";
import { type NftRuleset, noNftRules } from "../../../src/state/nft-rule.ts";
import { FakeNode } from "../../support/fake-node.ts";
import type { NamedObject } from "../../support/memory-source.ts";
import { type ApiObject, node } from "../../support/objects.ts";
import { ip } from "../../support/records.ts";

export const web: { readonly protocol: "TCP"; readonly address: IpAddress; readonly port: 80 } = {
  protocol: "TCP",
  address: ip("10.96.0.10"),
  port: 80,
};

/** Each pod of this node is behind its own link, and everything else is behind eth0. */
export async function routeTo(address: IpAddress): Promise<Route | undefined> {
  const isPod = address.startsWith("10.244.1.");
  return {
    isLocal: false,
    isBridge: false,
    link: isPod ? `veth${address}` : "eth0",
    linkIndex: isPod ? 3 : 2,
    source: ip(isPod ? "10.244.1.1" : "192.168.10.11"),
  };
}

export async function withNode(
  objects: readonly ApiObject[],
  body: (onNode: FakeNode) => Promise<void>,
  flags: Readonly<Record<string, string>> = {},
): Promise<void> {
  const onNode = new FakeNode(flags);
  onNode.source.apply(...([node(), ...objects] as readonly unknown[] as readonly NamedObject[]));
  await onNode.start();
  try {
    await onNode.settle();
    await body(onNode);
  } finally {
    await onNode.stop();
  }
}

export async function explained(
  { modeView, kernel }: FakeNode,
  from: From | undefined,
  destination: Destination = web,
  listening: readonly ListeningSocket[] = [],
  clientsIn: (list: string) => readonly IpAddress[] = () => [],
  find: Routes["find"] = routeTo,
  options: ExplainOptions = {},
  nft: NftRuleset = noNftRules,
  links: Awaited<ReturnType<ExplainReaders["links"]["listLinks"]>> = [],
  more: {
    readonly markRules?: readonly MarkRule[];
    readonly flows?: readonly Flow[];
  } = {},
): Promise<Explanation> {
  const asks = from === undefined || from === "node" ? {} : { from };
  const facts = await planFacts(modeView, { kind: "destination", destination, ...asks });
  const [explanation] = await explainWith(
    {
      ...kernel,
      ipvs: kernel.ipvs,
      ipSets: kernel.ipSets,
      link: kernel.link,
      sysctl: kernel.sysctl,
      links: { listLinks: async () => links, listMarkRules: async () => more.markRules ?? [] },
      routes: { find },
      sockets: { listListening: () => listening },
      conntrack: { listFlows: async () => more.flows ?? [] },
      recentLists: { clientsIn },
      nftRules: { read: async () => ({ IPv4: nft, IPv6: nft }) },
      openRules: async () => kernel.iptables,
    },
    facts,
    from,
    options,
  );
  assert.ok(explanation !== undefined);
  return explanation;
}
