/** Identifies the subject of a change, a drift or a rejection. Pure. */

import type { HostPort, IpAddress, IpFamily } from "../base/ip.ts";
import type { TableName } from "../state/rule.ts";
import type { SetEntry } from "../state/set-entry.ts";
import type { ServerKey } from "../state/virtual-server.ts";

export type Subject =
  | { readonly type: "module"; readonly module: string }
  | { readonly type: "sysctl"; readonly path: string }
  | { readonly type: "link"; readonly link: string }
  | { readonly type: "set"; readonly setName: string }
  | { readonly type: "entry"; readonly setName: string; readonly entry: SetEntry }
  /** One of our chains, or a built-in chain with one of our jumps. */
  | {
      readonly type: "chain";
      readonly family: IpFamily;
      readonly table: TableName;
      readonly chainName: string;
    }
  | { readonly type: "virtual-server"; readonly virtualServer: ServerKey }
  | {
      readonly type: "real-server";
      readonly virtualServer: ServerKey;
      readonly realServer: HostPort;
    }
  | { readonly type: "address"; readonly address: IpAddress }
  | { readonly type: "conntrack"; readonly virtualServer: ServerKey };

export type SubjectType = Subject["type"];

/** The subject in the notation of ipvsadm and ipset, such as `TCP 10.96.0.1:80 -> 10.244.1.5:8080`. */
export function subjectText(subject: Subject): string {
  switch (subject.type) {
    case "module":
      return subject.module;
    case "sysctl":
      return subject.path;
    case "link":
      return subject.link;
    case "set":
      return subject.setName;
    case "entry":
      return `${subject.setName} ${subject.entry}`;
    case "chain":
      return `${subject.family} ${subject.table} ${subject.chainName}`;
    case "virtual-server":
    case "conntrack":
      return subject.virtualServer;
    case "real-server":
      return `${subject.virtualServer} -> ${subject.realServer}`;
    case "address":
      return subject.address;
  }
}

/** For example `kube-ipvs0 and 3 more`. */
export function countedText(first: Subject, others: number): string {
  return others === 0 ? subjectText(first) : `${subjectText(first)} and ${others} more`;
}

/** A key for maps. It is never parsed. */
export type SubjectKey = string & { readonly __brand: "SubjectKey" };

export function subjectKey(subject: Subject): SubjectKey {
  return `${subject.type} ${subjectText(subject)}` as SubjectKey;
}
