/** What a change, a drift or a refusal is about. Pure. */
import type { IpAddress, IpFamily } from "../base/ip.ts";
import { realServerKey } from "../state/real-server.ts";
import type { TableName } from "../state/rule.ts";
import type { SetEntry } from "../state/set-entry.ts";
import type { Change } from "./change.ts";

export type Subject =
  | { readonly type: "module"; readonly module: string }
  | { readonly type: "sysctl"; readonly path: string }
  | { readonly type: "link"; readonly link: string }
  | { readonly type: "set"; readonly setName: string }
  | { readonly type: "entry"; readonly setName: string; readonly entry: SetEntry }
  /** One of ours, or a built-in one with a jump of ours. */
  | {
      readonly type: "chain";
      readonly family: IpFamily;
      readonly table: TableName;
      readonly chainName: string;
    }
  | { readonly type: "virtual-server"; readonly virtualServer: string }
  | { readonly type: "real-server"; readonly virtualServer: string; readonly realServer: string }
  | { readonly type: "address"; readonly address: IpAddress }
  | { readonly type: "conntrack"; readonly virtualServer: string };

export type SubjectType = Subject["type"];

/** The typed key of what a change is about. */
export function subjectOf(change: Change): Subject {
  switch (change.kind) {
    case "module-load":
      return { type: "module", module: change.module };
    case "sysctl-write":
      return { type: "sysctl", path: change.path };
    case "link-create":
    case "link-remove":
      return { type: "link", link: change.link };
    case "set-create":
    case "set-swap":
      return { type: "set", setName: change.set.name };
    case "set-destroy":
      return { type: "set", setName: change.setName };
    case "entry-add":
    case "entry-remove":
      return { type: "entry", setName: change.set.name, entry: change.entry };
    case "chain-write":
      return chainSubject(change.family, change.chain.table, change.chain.name);
    case "chain-remove":
      return chainSubject(change.family, change.table, change.chainName);
    case "jump-insert":
    case "jump-remove":
      return chainSubject(change.family, change.jump.table, change.jump.from);
    case "virtual-server-create":
    case "virtual-server-update":
    case "virtual-server-remove":
      return { type: "virtual-server", virtualServer: change.key };
    case "real-server-create":
    case "real-server-update":
      return {
        type: "real-server",
        virtualServer: change.key,
        realServer: realServerKey(change.after),
      };
    case "real-server-remove":
      return {
        type: "real-server",
        virtualServer: change.key,
        realServer: realServerKey(change.before),
      };
    case "address-add":
    case "address-remove":
      return { type: "address", address: change.address };
    case "conntrack-delete":
      return { type: "conntrack", virtualServer: change.key };
  }
}

function chainSubject(family: IpFamily, table: TableName, chainName: string): Subject {
  return { type: "chain", family, table, chainName };
}

/** In the words of the operator's tools: `TCP 10.96.0.1:80 -> 10.244.1.5:8080`, `KUBE-CLUSTER-IP 10.96.0.1,tcp:80`. */
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

/** For maps only: it is never taken apart again. */
export function subjectKey(subject: Subject): string {
  return `${subject.type} ${subjectText(subject)}`;
}
