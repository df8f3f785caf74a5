/** Rule text → rule value, for the forms that we write. Pure. */
import type { IpFamily } from "../../base/ip.ts";
import type { Match, Rule, Target } from "../../state/rule.ts";
import { rejectAnswers, renderRule } from "./render.ts";
import { splitWords } from "./words.ts";

/**
 * The value of a rule (text behind `-A CHAIN `); `undefined` when it is none that we could have written:
 * an unknown match or target, or another order or spelling than {@link renderRule} gives. So a value
 * always renders to the text it came from.
 */
export function parseRule(family: IpFamily, text: string): Rule | undefined {
  const words = splitWords(text);
  const rule = words === undefined ? undefined : readRule(new Words(words), family);
  if (rule === undefined) return undefined;
  return rendersTo(family, rule, text) ? rule : undefined;
}

/** A place in a list of words. */
class Words {
  readonly #words: readonly string[];
  #next = 0;

  constructor(words: readonly string[]) {
    this.#words = words;
  }

  isAtEnd(): boolean {
    return this.#next >= this.#words.length;
  }

  /** The next word, or an empty one at the end. */
  take(): string {
    const word = this.#words[this.#next] ?? "";
    this.#next += 1;
    return word;
  }

  /** Takes the next word if it is this one. */
  accept(word: string): boolean {
    if (this.#words[this.#next] !== word) return false;
    this.#next += 1;
    return true;
  }
}

function readRule(words: Words, family: IpFamily): Rule | undefined {
  const matches: Match[] = [];
  while (!words.isAtEnd()) {
    if (words.accept("-j")) {
      const target = readTarget(words, family);
      return target === undefined || !words.isAtEnd() ? undefined : { matches, target };
    }
    const match = readMatch(words);
    if (match === undefined) return undefined;
    matches.push(match);
  }
  return undefined;
}

function readMatch(words: Words): Match | undefined {
  const isNegated = words.accept("!");
  if (words.accept("-s")) return { kind: "source", cidr: words.take(), isNegated };
  if (words.accept("-i")) return { kind: "in-interface", name: words.take(), isNegated };
  if (isNegated) return undefined;
  if (words.accept("-p")) return readProtocol(words.take());
  return words.accept("-m") ? extensions[words.take()]?.(words) : undefined;
}

function readProtocol(protocol: string): Match | undefined {
  if (protocol !== "tcp" && protocol !== "udp" && protocol !== "sctp") return undefined;
  return { kind: "protocol", protocol };
}

/** What stands behind `-m NAME`. Wrong or missing words show when the value is rendered again. */
const extensions: Readonly<Record<string, (words: Words) => Match | undefined>> = {
  __proto__: null as never,
  comment(words) {
    return words.accept("--comment") ? { kind: "comment", text: words.take() } : undefined;
  },
  mark(words) {
    const isNegated = words.accept("!");
    const mark = words.accept("--mark") ? readMark(words.take()) : undefined;
    return mark === undefined ? undefined : { kind: "mark", ...mark, isNegated };
  },
  set(words) {
    if (!words.accept("--match-set")) return undefined;
    const name = words.take();
    return { kind: "set", name, directions: words.take().split(",") as ("src" | "dst")[] };
  },
  conntrack(words) {
    if (!words.accept("--ctstate")) return undefined;
    return { kind: "conntrack-state", states: words.take().split(",") };
  },
  addrtype(words) {
    const isNegated = words.accept("!");
    const option = words.take();
    if (option !== "--src-type" && option !== "--dst-type") return undefined;
    const end = option === "--src-type" ? "src" : "dst";
    return { kind: "address-type", end, type: words.take(), isNegated };
  },
  physdev(words) {
    const isNegated = words.accept("!");
    return words.accept("--physdev-is-in") ? { kind: "physical-in", isNegated } : undefined;
  },
  ipvs(words) {
    if (!words.accept("--vproto")) return undefined;
    const protocolNumber = Number(words.take());
    if (!words.accept("--vaddr")) return undefined;
    const address = words.take();
    if (!words.accept("--vport")) return undefined;
    return { kind: "ipvs", protocolNumber, address, port: Number(words.take()) };
  },
};

function readMark(text: string): { value: number; mask: number } | undefined {
  const found = /^(0x[0-9a-f]{1,8})(?:\/(0x[0-9a-f]{1,8}))?$/.exec(text);
  if (found === null) return undefined;
  return { value: Number(found[1]), mask: Number(found[2] ?? 0xffffffff) };
}

function readTarget(words: Words, family: IpFamily): Target | undefined {
  const name = words.take();
  switch (name) {
    case "ACCEPT":
      return { kind: "accept" };
    case "DROP":
      return { kind: "drop" };
    case "RETURN":
      return { kind: "return" };
    case "REJECT": {
      const isOurs = words.accept("--reject-with") && words.take() === rejectAnswers[family];
      return isOurs ? { kind: "reject" } : undefined;
    }
    case "MARK": {
      const mark = words.accept("--set-xmark") ? readMark(words.take()) : undefined;
      return mark === undefined ? undefined : { kind: "xmark", ...mark };
    }
    case "MASQUERADE":
      return { kind: "masquerade", isRandomFully: words.accept("--random-fully") };
    default:
      return { kind: "jump", chain: name };
  }
}

function rendersTo(family: IpFamily, rule: Rule, text: string): boolean {
  try {
    return renderRule(family, rule) === text;
  } catch {
    // A value that we refuse to write is one that we cannot have written.
    return false;
  }
}
