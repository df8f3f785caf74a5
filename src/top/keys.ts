/** What a terminal sends → names of keys. Pure. */

const names: Readonly<Record<string, string>> = {
  "\u001b": "escape",
  "\u001b[A": "up",
  "\u001bOA": "up",
  "\u001b[B": "down",
  "\u001bOB": "down",
  "\u001b[C": "right",
  "\u001bOC": "right",
  "\u001b[D": "left",
  "\u001bOD": "left",
  "\u001b[5~": "page-up",
  "\u001b[6~": "page-down",
  "\u001b[H": "home",
  "\u001bOH": "home",
  "\u001b[1~": "home",
  "\u001b[7~": "home",
  "\u001b[F": "end",
  "\u001bOF": "end",
  "\u001b[4~": "end",
  "\u001b[8~": "end",
  "\r": "enter",
  "\n": "enter",
  "\u007f": "backspace",
  "\b": "backspace",
  "\u0003": "interrupt",
  // End of input, as of `cat`.
  "\u0004": "interrupt",
};

const escapeCode = "\u001b";
/** A sequence, the beginning of one at the end, or a character. */
const tokens = new RegExp(
  `${escapeCode}(?:\\[[0-9;?]*|O)[@-~]|(${escapeCode}(?:\\[[0-9;?]*|O)?$)|.`,
  "gsu",
);

export interface ReadKeys {
  readonly keys: readonly string[];
  /** The beginning of a sequence whose rest has not come yet; a lone escape may be the key itself. */
  readonly rest: string;
}

/** `text`: the rest of what came before, and what came now. Unknown sequences are left out. */
export function readKeys(text: string): ReadKeys {
  const keys: string[] = [];
  for (const [token, rest] of text.matchAll(tokens)) {
    if (rest !== undefined) return { keys, rest };
    const key = names[token] ?? (/\p{Cc}/u.test(token) ? undefined : token);
    if (key !== undefined) keys.push(key);
  }
  return { keys, rest: "" };
}
