/**
 * What may stand in a rule's text. Names come from configuration and from Service objects; a line of
 * iptables-restore input is a command, so anything that could end a word or a line is refused here.
 */

/** A rule that cannot be written down: a broken promise of whoever planned it. */
export class RuleValueError extends Error {
  readonly what: string;
  readonly value: string;

  constructor(what: string, value: string, expected: string) {
    super(`Cannot write ${what} ${JSON.stringify(value)} into a rule: expected ${expected}`);
    this.name = "RuleValueError";
    this.what = what;
    this.value = value;
  }
}

interface TextRule {
  readonly what: string;
  readonly pattern: RegExp;
  readonly expected: string;
}

/** XT_EXTENSION_MAXNAMELEN (29) less the terminator; `-` and `!` in front would be read as options. */
const chainRule: TextRule = {
  what: "chain",
  pattern: /^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,27}$/,
  expected: "1 to 28 letters, digits or any of _ . : -, not beginning with a sign",
};

/** IPSET_MAXNAMELEN (32) less the terminator. */
const setRule: TextRule = {
  what: "set",
  pattern: /^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,30}$/,
  expected: "1 to 31 letters, digits or any of _ . : -, not beginning with a sign",
};

/** IFNAMSIZ (16) less the terminator; a `+` at the end stands for any rest of the name. */
const interfaceRule: TextRule = {
  what: "interface",
  pattern: /^(?=.{1,15}$)[A-Za-z0-9_][A-Za-z0-9_.@-]*\+?$/,
  expected: "1 to 15 letters, digits or any of _ . @ -, with + at most at its end",
};

/** NFACCT_NAME_MAX (32) less the terminator. */
const counterRule: TextRule = {
  what: "counter",
  pattern: /^[A-Za-z0-9_]{1,31}$/,
  expected: "1 to 31 letters, digits or _",
};

/** XT_MAX_COMMENT_LEN (256) less the terminator. */
const commentRule: TextRule = {
  what: "comment",
  pattern: /^[\x20-\x7e]{0,255}$/,
  expected: "at most 255 printable ASCII characters",
};

/** Words of iptables' own vocabulary: LOCAL, UNICAST, ESTABLISHED. */
const keywordRule: TextRule = {
  what: "keyword",
  pattern: /^[A-Z]{1,20}$/,
  expected: "a word of capital letters",
};

function checker(rule: TextRule): (value: string) => string {
  return (value) => {
    if (!rule.pattern.test(value)) throw new RuleValueError(rule.what, value, rule.expected);
    return value;
  };
}

/** Each gives back what it was given, or throws a {@link RuleValueError}. */
export const checkChainName: (value: string) => string = checker(chainRule);
export const checkSetName: (value: string) => string = checker(setRule);
export const checkCounterName: (value: string) => string = checker(counterRule);
export const checkInterfaceName: (value: string) => string = checker(interfaceRule);
export const checkComment: (value: string) => string = checker(commentRule);
export const checkKeyword: (value: string) => string = checker(keywordRule);

/** A whole number from 0 to `largest`. */
export function checkNumber(what: string, value: number, largest: number): number {
  if (!Number.isInteger(value) || value < 0 || value > largest) {
    throw new RuleValueError(what, String(value), `a whole number from 0 to ${largest}`);
  }
  return value;
}
