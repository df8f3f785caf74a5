/** A saved rule as a value: what `render.ts` writes, read back. Pure. */
import { ipFamilies, parseIpAddress } from "../../base/ip.ts";
import type { Match, Rule, Target } from "../../state/rule.ts";
import { echoRequestWords } from "./render.ts";
import { splitWords } from "./words.ts";

/**
 * The rule behind `-A CHAIN `, as `iptables-save` prints it; undefined for one with a match or target that rules of ours
 * do not have: it is a third party's.
 */
export function parseRule(text: string): Rule | undefined {
  const words = splitWords(text);
  if (words === undefined) return undefined;
  const matches: Match[] = [];
  let rest = words;
  while (rest.length > 0) {
    const target = readTarget(rest);
    if (target !== undefined) return { matches, target };
    const found = readMatch(rest);
    if (found === undefined) return undefined;
    matches.push(found.match);
    rest = rest.slice(found.length);
  }
  return matches.length === 0 ? undefined : { matches, target: { kind: "none" } };
}

interface Found {
  readonly match: Match;
  /** In words. */
  readonly length: number;
}

const echoRequests: ReadonlySet<string> = new Set(
  ipFamilies.map((family) => echoRequestWords[family]),
);

/** `! WORD`: the sign stands in front of the option, behind the name of its module. */
function readMatch(words: readonly string[]): Found | undefined {
  if (echoRequests.has(words.slice(0, 6).join(" "))) {
    return { match: { kind: "echo-request" }, length: 6 };
  }
  if (words[0] === "-m") return readModule(words);
  const isNegated = words[0] === "!";
  const [option = "", value = ""] = isNegated ? words.slice(1) : words;
  const length = isNegated ? 3 : 2;
  switch (option) {
    case "-s":
      return { match: { kind: "source", cidr: value, isNegated }, length };
    case "-d":
      return { match: { kind: "destination", cidr: value, isNegated }, length };
    case "-i":
      return { match: { kind: "in-interface", name: value, isNegated }, length };
    case "-p":
      if (isNegated || !(value === "tcp" || value === "udp" || value === "sctp")) return undefined;
      return { match: { kind: "protocol", protocol: value }, length };
    default:
      return undefined;
  }
}

/** `-m NAME` with the options that this module has in rules of ours. */
function readModule(words: readonly string[]): Found | undefined {
  const [, name = ""] = words;
  const protocol = protocolNamed(name);
  // Only asks for the protocol: the next words begin another match, or the target.
  if (protocol !== undefined && (words[2] === "-m" || words[2] === "-j")) {
    return { match: { kind: "port", protocol }, length: 2 };
  }
  const isNegated = words[2] === "!";
  const [option = "", ...values] = words.slice(isNegated ? 3 : 2);
  const match = matchOf(`${name} ${option}`, { values, isNegated });
  if (match === undefined) return undefined;
  return { match, length: (isNegated ? 3 : 2) + 1 + (valueCounts[match.kind] ?? 0) };
}

/** Words behind the first option of a module. */
const valueCounts: Readonly<Partial<Record<Match["kind"], number>>> = {
  accounting: 1,
  chance: 3,
  "recent-check": 8,
  "recent-set": 5,
  port: 1,
  comment: 1,
  mark: 1,
  set: 2,
  "conntrack-state": 1,
  "address-type": 1,
  "physical-in": 0,
  ipvs: 5,
};

interface Words {
  readonly values: readonly string[];
  readonly isNegated: boolean;
}

function matchOf(option: string, { values, isNegated }: Words): Match | undefined {
  const [value = ""] = values;
  switch (option) {
    case "comment --comment":
      return isNegated ? undefined : { kind: "comment", text: value };
    case "mark --mark":
      return markMatch(value, isNegated);
    case "set --match-set":
      return isNegated ? undefined : setMatch(values);
    case "conntrack --ctstate":
      return statesMatch(value, isNegated);
    case "addrtype --src-type":
      return { kind: "address-type", end: "src", type: value, isNegated };
    case "addrtype --dst-type":
      return { kind: "address-type", end: "dst", type: value, isNegated };
    case "physdev --physdev-is-in":
      return { kind: "physical-in", isNegated };
    case "tcp --dport":
    case "udp --dport":
    case "sctp --dport":
      return isNegated ? undefined : portMatch(option, value);
    case "ipvs --vproto":
      return isNegated ? undefined : ipvsMatch(values);
    case "nfacct --nfacct-name":
      return isNegated ? undefined : { kind: "accounting", counter: value };
    case "statistic --mode":
      return chanceMatch(values);
    case "recent --rcheck":
    case "recent --set":
      return isNegated ? undefined : recentMatch(option, values);
    default:
      return undefined;
  }
}

function statesMatch(value: string, isNegated: boolean): Match {
  const states = value.split(",");
  return { kind: "conntrack-state", states, ...(isNegated ? { isNegated } : {}) };
}

/** `random --probability P`. */
function chanceMatch([mode, option, value = ""]: readonly string[]): Match | undefined {
  if (mode !== "random" || option !== "--probability" || !/^[01]\.\d+$/.test(value))
    return undefined;
  return { kind: "chance", probability: Number(value) };
}

/** `--seconds N --reap --name LIST --mask MASK --rsource`, and without the first three for `--set`. */
function recentMatch(option: string, values: readonly string[]): Match | undefined {
  const text = values.join(" ");
  if (option === "recent --set") {
    const [, list] = /^--name (\S+) --mask \S+ --rsource(?: |$)/.exec(text) ?? [];
    return list === undefined ? undefined : { kind: "recent-set", list };
  }
  const found = /^--seconds (\d+) --reap --name (\S+) --mask \S+ --rsource(?: |$)/.exec(text);
  if (found === null) return undefined;
  return { kind: "recent-check", list: found[2] ?? "", seconds: Number(found[1]) };
}

function markMatch(text: string, isNegated: boolean): Match | undefined {
  const [value, mask] = valueAndMask(text);
  if (value === undefined || mask === undefined) return undefined;
  return { kind: "mark", value, mask, isNegated };
}

/** One port; a range is a third party's. */
function portMatch(option: string, value: string): Match | undefined {
  const protocol = protocolNamed(option.split(" ", 1)[0] ?? "");
  if (protocol === undefined || !/^\d+$/.test(value)) return undefined;
  return { kind: "port", protocol, destination: Number(value) };
}

function protocolNamed(name: string): "tcp" | "udp" | "sctp" | undefined {
  return (["tcp", "udp", "sctp"] as const).find((protocol) => protocol === name);
}

function setMatch([name = "", directions = ""]: readonly string[]): Match | undefined {
  const ends = directions.split(",");
  if (!ends.every((end) => end === "src" || end === "dst")) return undefined;
  return { kind: "set", name, directions: ends };
}

/** `PROTOCOL --vaddr ADDRESS --vport PORT`; old versions print the address with its prefix length. */
function ipvsMatch(values: readonly string[]): Match | undefined {
  const [protocol = "", addressOption, address = "", portOption, port = ""] = values;
  if (addressOption !== "--vaddr" || portOption !== "--vport") return undefined;
  const plain = address.replace(/\/\d+$/, "");
  return { kind: "ipvs", protocolNumber: Number(protocol), address: plain, port: Number(port) };
}

/** Undefined: these words begin a match. */
function readTarget([option, name = "", ...rest]: readonly string[]): Target | undefined {
  if (option !== "-j") return undefined;
  const [first = "", second = ""] = rest;
  switch (name) {
    case "ACCEPT":
    case "DROP":
    case "RETURN":
      return { kind: plainTargets[name] };
    case "REJECT":
      return { kind: "reject" };
    case "MARK": {
      const [value, mask] = first === "--set-xmark" ? valueAndMask(second) : [];
      return value === undefined || mask === undefined ? undefined : { kind: "xmark", value, mask };
    }
    case "MASQUERADE":
      return { kind: "masquerade", isRandomFully: first === "--random-fully" };
    case "DNAT":
      return first === "--to-destination" && rest.length === 2 ? translation(second) : undefined;
    case "REDIRECT":
      if (first !== "--to-ports" || !/^\d+$/.test(second) || rest.length !== 2) return undefined;
      return { kind: "redirect", port: Number(second) };
    default:
      return rest.length === 0 ? { kind: "jump", chain: name } : undefined;
  }
}

/** `ADDRESS:PORT`, or `[ADDRESS]:PORT`; another port for each address, or none, is a third party's. */
function translation(text: string): Target | undefined {
  const [, bracketed, plain = "", port = ""] =
    /^(?:\[([0-9a-f:.]+)\]|([\d.]+)):(\d+)$/.exec(text) ?? [];
  const address = parseIpAddress(bracketed ?? plain);
  return address === undefined ? undefined : { kind: "translate", address, port: Number(port) };
}

const plainTargets = { ACCEPT: "accept", DROP: "drop", RETURN: "return" } as const;

/** `0x4000/0x4000`; without a mask all bits count. */
function valueAndMask(text: string): readonly [value?: number, mask?: number] {
  const found = /^0x([0-9a-f]{1,8})(?:\/0x([0-9a-f]{1,8}))?$/.exec(text);
  if (found === null) return [];
  return [Number.parseInt(found[1] ?? "", 16), Number.parseInt(found[2] ?? "ffffffff", 16)];
}
