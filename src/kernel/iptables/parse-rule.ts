/** Parses a saved rule into a value: the reverse of `render.ts`. Pure. */
import { ipFamilies, parseIpAddress } from "../../base/ip.ts";
import type { Match, Rule, Target } from "../../state/rule.ts";
import { echoRequestWords } from "./render.ts";

/**
 * Parses the text after `-A CHAIN `, as printed by `iptables-save`. Undefined if the rule has a match or target that
 * our rules never have. Such a rule belongs to a third party.
 */
export function parseRule(text: string): Rule | undefined {
  const matches: Match[] = [];
  for (let at = 0; at < text.length; ) {
    if (text.startsWith("-j ", at)) {
      const target = read(targetForms, text, at)?.value;
      return target === undefined ? undefined : { matches, target };
    }
    const found = read(matchForms, text, at);
    if (found === undefined) return undefined;
    matches.push(found.value);
    at = found.end;
  }
  return matches.length === 0 ? undefined : { matches, target: { kind: "none" } };
}

/** How a match or target is printed, and how its values are decoded. */
export interface Form<T> {
  readonly pattern: RegExp;
  decode(...values: readonly string[]): T | undefined;
}

/** Reads one match or target at an offset. Undefined if our rules never have it. */
export function read<T>(
  forms: readonly Form<T>[],
  text: string,
  at: number,
): { readonly value: T; readonly end: number } | undefined {
  for (const { pattern, decode } of forms) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found === null) continue;
    const value = decode(...found.slice(1).map((one: string | undefined) => unquoted(one ?? "")));
    return value === undefined ? undefined : { value, end: pattern.lastIndex };
  }
  return undefined;
}

/** Placeholders in patterns. The negation sign is printed before the option and after the module name. */
const parts = {
  NOT: "(! +)?",
  WORD: String.raw`("(?:[^"\\]|\\.)*"|[^ "]+)`,
  PROTOCOL: "(tcp|udp|sctp)",
  // Without a mask, all bits are compared.
  BITS: "0x([0-9a-f]{1,8})(?:/0x([0-9a-f]{1,8}))?",
};

/**
 * Builds the form of a match or target from its pattern. A space in the pattern matches one or more spaces, because the
 * number of spaces depends on the iptables-save version.
 */
function formOf<T>(pattern: string, end: string, decode: Form<T>["decode"]): Form<T> {
  const source = pattern
    .replaceAll(" ", " +")
    .replaceAll(/NOT|WORD|PROTOCOL|BITS/g, (name) => parts[name as keyof typeof parts]);
  return { pattern: new RegExp(source + end, "sy"), decode };
}

function match(pattern: string, decode: Form<Match>["decode"]): Form<Match> {
  return formOf(pattern, "(?: +|$)", decode);
}

function target(pattern: string, decode: Form<Target>["decode"]): Form<Target> {
  return formOf(pattern, " *$", decode);
}

export const matchForms: readonly Form<Match>[] = [
  match("NOT-s WORD", (not, cidr = "") => ({ kind: "source", cidr, isNegated: not !== "" })),
  match("NOT-d WORD", (not, cidr = "") => ({ kind: "destination", cidr, isNegated: not !== "" })),
  match("NOT-i WORD", (not, name = "") => ({ kind: "in-interface", name, isNegated: not !== "" })),
  match("-p PROTOCOL", (protocol) => ({ kind: "protocol", protocol: protocol as Protocol })),
  // Without /etc/protocols, iptables-save prints the number.
  match("-p (?:ipencap|4)", () => ({ kind: "protocol", protocol: "ipencap" })),
  match("-p (?:ipv6|41)", () => ({ kind: "protocol", protocol: "ipv6" })),
  ...ipFamilies.map((family) => match(echoRequestWords[family], () => ({ kind: "echo-request" }))),
  match("-m comment --comment WORD", (text = "") => ({ kind: "comment", text })),
  match("-m PROTOCOL --dport (\\d+)(?::(\\d+))?", (protocol, port, last = "") => {
    const end = last === "" ? {} : { last: Number(last) };
    return { kind: "port", protocol: protocol as Protocol, destination: Number(port), ...end };
  }),
  // This form matches only the protocol, without a port. The next words begin another match or the target.
  match("-m PROTOCOL(?= -[mj] )", (protocol) => ({ kind: "port", protocol: protocol as Protocol })),
  match("-m statistic --mode random --probability ([01]\\.\\d+)", (probability) => {
    return { kind: "chance", probability: Number(probability) };
  }),
  match(
    "-m recent --rcheck --seconds (\\d+) --reap --name WORD --mask WORD --rsource",
    (seconds, list = "") => ({ kind: "recent-check", list, seconds: Number(seconds) }),
  ),
  match("-m recent --set --name WORD --mask WORD --rsource", (list = "") => {
    return { kind: "recent-set", list };
  }),
  match("-m nfacct --nfacct-name WORD", (counter = "") => ({ kind: "accounting", counter })),
  match("-m mark NOT--mark BITS", (not, value, mask) => {
    return { kind: "mark", value: bits(value), mask: bits(mask), isNegated: not !== "" };
  }),
  match("-m set --match-set WORD ((?:src|dst)(?:,(?:src|dst))*)", (name = "", ends = "") => {
    return { kind: "set", name, directions: ends.split(",") as ("src" | "dst")[] };
  }),
  match("-m conntrack NOT--ctstate WORD", (not, states = "") => {
    const isNegated = not === "" ? {} : ({ isNegated: true } as const);
    return { kind: "conntrack-state", states: states.split(","), ...isNegated };
  }),
  match("-m addrtype NOT--(src|dst)-type WORD", (not, end, type = "") => {
    return { kind: "address-type", end: end as "src" | "dst", type, isNegated: not !== "" };
  }),
  match("-m physdev NOT--physdev-is-in", (not) => ({ kind: "physical-in", isNegated: not !== "" })),
  // Old versions print the address with a prefix length.
  match("-m ipvs --vproto (\\d+) --vaddr ([^/\\s]+)(?:/\\d+)? --vport (\\d+)", (...values) => {
    const [protocol, address = "", port] = values;
    return { kind: "ipvs", protocolNumber: Number(protocol), address, port: Number(port) };
  }),
];

type Protocol = "tcp" | "udp" | "sctp";

const plainTargets: Readonly<Record<string, "accept" | "drop" | "return">> = {
  ACCEPT: "accept",
  DROP: "drop",
  RETURN: "return",
};

export const targetForms: readonly Form<Target>[] = [
  target("-j (ACCEPT|DROP|RETURN)", (name = "") => ({ kind: plainTargets[name] ?? "return" })),
  target("-j REJECT(?: .*)?", () => ({ kind: "reject" })),
  target("-j MARK --set-xmark BITS", (value, mask) => {
    return { kind: "xmark", value: bits(value), mask: bits(mask) };
  }),
  target("-j MASQUERADE( --random-fully)?(?: .*)?", (random) => {
    return { kind: "masquerade", isRandomFully: random !== "" };
  }),
  // Our rules always have exactly one address and one port here.
  target("-j DNAT --to-destination (?:\\[([0-9a-f:.]+)\\]|([\\d.]+)):(\\d+)", (...values) => {
    const [bracketed, plain = "", port] = values;
    const address = parseIpAddress(bracketed || plain);
    return address === undefined ? undefined : { kind: "translate", address, port: Number(port) };
  }),
  target("-j REDIRECT --to-ports (\\d+)", (port) => ({ kind: "redirect", port: Number(port) })),
  target("-j (?!(?:MARK|DNAT|REDIRECT)$)WORD", (chain = "") => ({ kind: "jump", chain })),
];

function bits(digits = ""): number {
  return digits === "" ? 0xffffffff : Number.parseInt(digits, 16);
}

function unquoted(word: string): string {
  return word.startsWith('"') ? word.slice(1, -1).replaceAll(/\\(.)/gs, "$1") : word;
}
