/**
 * The canonical text of a rule, stored in the rule's user data. Pure. User data is a list of values with a type and a
 * length, which the kernel does not interpret. `nft list` prints the value of type 0 as the rule's comment, and ignores
 * types that it does not know. A rule that `nft` adds or replaces therefore has no canonical text.
 */
import type { IpFamily } from "../../base/ip.ts";
import type { Match, Rule } from "../../state/rule.ts";
import { RuleValueError } from "../iptables/names.ts";
import { renderRule } from "../iptables/render.ts";

/** NFTNL_UDATA_RULE_COMMENT, libnftnl/udata.h. */
const commentType = 0;
/** The canonical text with a placeholder instead of the comment. */
const textType = 0x6b;
/** NFT_USERDATA_MAXLEN. */
const maxBytes = 256;

const placeholder = commentWords("IPv4", "*");
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Throws a {@link RuleValueError} if the rule has more than one comment or its text is too long. */
export function encodeRuleText(family: IpFamily, rule: Rule): Uint8Array {
  const comments = rule.matches.flatMap((match) => (match.kind === "comment" ? [match.text] : []));
  const [comment] = comments;
  if (comments.length > 1) throw new RuleValueError("comment", comments.join(), "one comment");
  const matches = rule.matches.map(
    (match): Match => (match.kind === "comment" ? { kind: "comment", text: "*" } : match),
  );
  const text = renderRule(family, { ...rule, matches });
  const bytes = Uint8Array.from([
    ...(comment === undefined ? [] : valueBytes(commentType, comment)),
    ...valueBytes(textType, text),
  ]);
  if (bytes.length > maxBytes) {
    throw new RuleValueError("rule", text, `at most ${maxBytes} bytes of text with its comment`);
  }
  return bytes;
}

/** Undefined if other software wrote the rule. */
export function decodeRuleText(family: IpFamily, bytes: Uint8Array): string | undefined {
  const values = new Map<number, string>();
  for (let at = 0; at + 2 <= bytes.length; at += 2 + (bytes[at + 1] ?? 0)) {
    const value = bytes.subarray(at + 2, at + 2 + (bytes[at + 1] ?? 0));
    values.set(bytes[at] ?? 0, decoder.decode(value).replace(/\0$/, ""));
  }
  const comment = values.get(commentType);
  const text = values.get(textType);
  if (comment === undefined) return text;
  return text?.replace(placeholder, () => commentWords(family, comment));
}

function commentWords(family: IpFamily, text: string): string {
  return renderRule(family, { matches: [{ kind: "comment", text }], target: { kind: "none" } });
}

/** Our values end with NUL, like those of `nft`. */
function valueBytes(type: number, text: string): readonly number[] {
  const value = [...encoder.encode(text), 0];
  return [type, value.length, ...value];
}
