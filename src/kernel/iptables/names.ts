/**
 * Checks values before they are written into a rule. Names come from configuration and from Service objects, and each
 * line of iptables-restore input is a command. Values that could end a word or a line are therefore rejected here.
 */

/** A value that cannot be written into a rule. This is a bug in the code that planned the rule. */
export class RuleValueError extends Error {
  constructor(what: string, value: string, expected: string) {
    super(`Cannot write ${what} ${JSON.stringify(value)} into a rule: expected ${expected}`);
    this.name = "RuleValueError";
  }
}

/** Returns a check that returns valid text unchanged and throws a {@link RuleValueError} otherwise. */
function checker(what: string, pattern: RegExp, expected: string): (value: string) => string {
  return (value) => {
    if (!pattern.test(value)) throw new RuleValueError(what, value, expected);
    return value;
  };
}

/** XT_EXTENSION_MAXNAMELEN (29) minus the terminator. A leading `-` or `!` would be read as an option. */
export const checkChainName: (value: string) => string = checker(
  "chain",
  /^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,27}$/,
  "1 to 28 letters, digits or any of _ . : -, not beginning with . : or -",
);

/** IPSET_MAXNAMELEN (32) minus the terminator. */
export const checkSetName: (value: string) => string = checker(
  "set",
  /^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,30}$/,
  "1 to 31 letters, digits or any of _ . : -, not beginning with . : or -",
);

/** NFACCT_NAME_MAX (32) minus the terminator. */
export const checkCounterName: (value: string) => string = checker(
  "counter",
  /^[A-Za-z0-9_]{1,31}$/,
  "1 to 31 letters, digits or _",
);

/** IFNAMSIZ (16) minus the terminator. A trailing `+` matches any suffix. */
export const checkInterfaceName: (value: string) => string = checker(
  "interface",
  /^(?=.{1,15}$)[A-Za-z0-9_][A-Za-z0-9_.@-]*\+?$/,
  "1 to 15 letters, digits or any of _ . @ -, with + at most at its end",
);

/** XT_MAX_COMMENT_LEN (256) minus the terminator. */
export const checkComment: (value: string) => string = checker(
  "comment",
  /^[\x20-\x7e]{0,255}$/,
  "at most 255 printable ASCII characters",
);

/** iptables keywords, such as LOCAL, UNICAST, ESTABLISHED. */
export const checkKeyword: (value: string) => string = checker(
  "keyword",
  /^[A-Z]{1,20}$/,
  "a word of capital letters",
);

/** A whole number from 0 to `largest`. */
export function checkNumber(what: string, value: number, largest: number): number {
  if (!Number.isInteger(value) || value < 0 || value > largest) {
    throw new RuleValueError(what, String(value), `a whole number from 0 to ${largest}`);
  }
  return value;
}
