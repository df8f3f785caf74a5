/** Parses other software's rules, as far as possible. Pure. */
import { matchForms, parseRule, read, targetForms } from "../../kernel/iptables/parse-rule.ts";
import type { Match, Target } from "../../state/rule.ts";
import type { ListedRule } from "../packet/node-state.ts";

/** A match or an interface, up to the next one or the target. */
const otherMatch =
  /(?:! +)?-(?:[iop] +(?:"[^"]*"|\S+)|m +\S+(?:(?! -[mjg] )(?: +"(?:[^"\\]|\\.)*"| +\S+))*)(?: +|$)/y;

/** Targets that may change a packet's path. All other targets are ignored. */
const decidingTarget =
  /^-j (?:[DS]NAT|REDIRECT|TPROXY|NFQUEUE|NETMAP|SYNPROXY|QUEUE|TARPIT|CT|NOTRACK|MARK|MASQUERADE)\b/;

export function parseListedRule(text: string): ListedRule {
  const rule = parseRule(text);
  if (rule !== undefined && !rule.matches.some(isOtherSet)) return { text, rule };
  const matches: Match[] = [];
  const others: string[] = [];
  let at = 0;
  while (at < text.length && !/^-[jg] /.test(text.slice(at, at + 3))) {
    const known = read(matchForms, text, at);
    const found = known !== undefined && isOtherSet(known.value) ? undefined : known;
    otherMatch.lastIndex = at;
    const other = found === undefined ? otherMatch.exec(text)?.[0] : undefined;
    if (found !== undefined) matches.push(found.value);
    else if (other !== undefined) others.push(other.trim());
    else return { text };
    at = found?.end ?? at + (other?.length ?? 0);
  }
  const end = text.slice(at);
  const isGoto = end.startsWith("-g ");
  const target = targetOf(isGoto ? `-j ${end.slice(3)}` : end);
  if (target === undefined) return { text, others, matches };
  return { text, rule: { matches, target }, others, ...(isGoto ? { isGoto } : {}) };
}

/** Whether a match refers to other software's set. If that set cannot be read, the match cannot be evaluated. */
function isOtherSet(match: Match): boolean {
  return match.kind === "set" && !match.name.startsWith("KUBE-");
}

/** Parses a target. Undefined if it decides what happens to the packet but cannot be evaluated. */
function targetOf(text: string): Target | undefined {
  const target = text === "" ? undefined : read(targetForms, text, 0)?.value;
  if (target !== undefined) return target;
  return decidingTarget.test(text) ? undefined : { kind: "none" };
}
