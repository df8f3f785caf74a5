/** Every single fault that can affect a scenario's changes. */
import type { IpFamily } from "../../../src/base/ip.ts";
import type { RuleChange } from "../../../src/kernel/kernel.ts";
import { ruleChangeText } from "../fake-kernel/fake-iptables.ts";
import type { FakeKernel } from "../fake-kernel/fake-kernel.ts";
import { type Operation, operationText } from "../fake-kernel/operations.ts";

export interface Fault {
  readonly name: string;
  /** Begins the fault and returns a function that ends it. */
  begin(kernel: FakeKernel): () => void;
}

/** ENOMEM, because this error reveals nothing about the kernel state. */
const errorNumber = 12;

/**
 * `requests` are those of a run without a fault. Each change in a list, and each chain and jump in a restore, gets its
 * own fault.
 */
export function faultsOf(requests: readonly (readonly Operation[])[]): readonly Fault[] {
  const operations = requests.flat();
  const changes = operations.filter(({ facility }) => facility !== "iptables").map(operationText);
  const restores = operations.filter(({ facility }) => facility === "iptables");
  const rules = restores.flatMap(({ subject }) => {
    const [family = "", texts = ""] = splitOnce(subject, ": ");
    return texts.split(", ").map((text) => `${family}: ${text}`);
  });
  const firsts = requests.flatMap(([first]) => (first === undefined ? [] : [operationText(first)]));
  return [
    ...[...new Set(changes)].flatMap((text) => [
      rejection(text, 1),
      rejection(text, Number.POSITIVE_INFINITY),
    ]),
    ...[...new Set(rules)].flatMap((text) => [
      ruleRejection(text, 1),
      ruleRejection(text, Number.POSITIVE_INFINITY),
    ]),
    ...[...new Set(rules.map(tableText))]
      .filter((table) => table.endsWith("filter"))
      .map(tableRejection),
    ...[...new Set(firsts)].flatMap((text) => [lostRequest(text), lostReply(text)]),
    ...operations.map((operation, index) => kill(index + 1, operationText(operation))),
  ];
}

/** Each pair of permanently rejected changes. */
export function* pairsOf(faults: readonly Fault[]): Generator<Fault> {
  const lasting = faults.filter(({ name }) => name.startsWith(howOften(Number.POSITIVE_INFINITY)));
  for (const [index, one] of lasting.entries()) {
    for (const other of lasting.slice(index + 1)) {
      yield {
        name: `${one.name}, ${other.name}`,
        begin(kernel) {
          const ends = [one.begin(kernel), other.begin(kernel)];
          return () => {
            for (const end of ends) end();
          };
        },
      };
    }
  }
}

function rejection(text: string, times: number): Fault {
  return {
    name: `${howOften(times)}: ${text}`,
    begin: ({ operations }) =>
      operations.failWhere((operation) => operationText(operation) === text, errorNumber, times),
  };
}

function ruleRejection(text: string, times: number): Fault {
  return iptablesRejection(text, (change) => change === text, times);
}

/**
 * The rejection of a whole table, which iptables-nft may report if a native nftables rule exists. If all writes to nat
 * are rejected, access to a Service in iptables mode does not change.
 */
function tableRejection(table: string): Fault {
  return iptablesRejection(table, (change) => tableText(change) === table);
}

/** `IPv4: chain-write nat KUBE-SERVICES` → `IPv4 nat` */
function tableText(change: string): string {
  const [family = "", , table = ""] = change.split(/:? /);
  return `${family} ${table}`;
}

function iptablesRejection(
  what: string,
  isRejected: (change: string) => boolean,
  times: number = Number.POSITIVE_INFINITY,
): Fault {
  return {
    name: `${howOften(times)}: iptables ${what}`,
    begin({ iptables }) {
      let left = times;
      const { rejects: others } = iptables;
      iptables.rejects = (family: IpFamily, change: RuleChange): boolean => {
        if (left === 0 || !isRejected(`${family}: ${ruleChangeText(change)}`)) {
          return others(family, change);
        }
        left -= 1;
        return true;
      };
      return () => {
        left = 0;
      };
    },
  };
}

function howOften(times: number): string {
  return times === 1 ? "rejected once" : "permanently rejected";
}

function lostRequest(text: string): Fault {
  return {
    name: `lost: ${shortened(text)}`,
    begin({ operations }) {
      operations.loseRequestWhere((operation) => operationText(operation) === text);
      return () => {};
    },
  };
}

function lostReply(text: string): Fault {
  return {
    name: `reply lost: ${shortened(text)}`,
    begin({ operations }) {
      operations.loseReplyWhere((operation) => operationText(operation) === text);
      return () => {};
    },
  };
}

function kill(nth: number, text: string): Fault {
  return {
    name: `killed at ${nth}: ${shortened(text)}`,
    begin({ operations }) {
      operations.crashAt(nth);
      return () => {};
    },
  };
}

/** Shortens the text of a restore to its first change and the number of changes. */
function shortened(text: string): string {
  const [first = "", ...others] = text.split(", ");
  return others.length === 0 ? first : `${first} and ${others.length} more`;
}

function splitOnce(text: string, separator: string): readonly [string, string] {
  const at = text.indexOf(separator);
  return [text.slice(0, at), text.slice(at + separator.length)];
}
