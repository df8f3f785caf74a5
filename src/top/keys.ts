/** What a terminal sends → names of keys. Pure. */

const sequences: Readonly<Record<string, string>> = {
  "[A": "up",
  OA: "up",
  "[B": "down",
  OB: "down",
  "[C": "right",
  OC: "right",
  "[D": "left",
  OD: "left",
  "[5~": "page-up",
  "[6~": "page-down",
  "[H": "home",
  OH: "home",
  "[1~": "home",
  "[7~": "home",
  "[F": "end",
  OF: "end",
  "[4~": "end",
  "[8~": "end",
};

const controls: Readonly<Record<string, string>> = {
  "\r": "enter",
  "\n": "enter",
  "\u007f": "backspace",
  "\b": "backspace",
  "\u0003": "interrupt",
  // End of input, as of `cat`.
  "\u0004": "interrupt",
};

export interface ReadKeys {
  readonly keys: readonly string[];
  /** The beginning of a sequence whose rest has not come yet; a lone escape may be the key itself. */
  readonly rest: string;
}

const escapeCode = "\u001b";

/** `text`: the rest of what came before, and what came now. Unknown sequences are left out. */
export function readKeys(text: string): ReadKeys {
  const keys: string[] = [];
  let left = text;
  while (left !== "") {
    if (!left.startsWith(escapeCode)) {
      const [character = ""] = left;
      left = left.slice(character.length);
      const key = controls[character] ?? (/\p{Cc}/u.test(character) ? undefined : character);
      if (key !== undefined) keys.push(key);
      continue;
    }
    if (left.startsWith(escapeCode + escapeCode)) {
      keys.push("escape");
      left = left.slice(1);
      continue;
    }
    const sequence = /^(?:\[[0-9;?]*[@-~]|O[@-~])/.exec(left.slice(1))?.[0];
    if (sequence === undefined) {
      if (/^(?:|\[[0-9;?]*|O)$/.test(left.slice(1))) return { keys, rest: left };
      keys.push("escape");
      left = left.slice(1);
      continue;
    }
    const key = sequences[sequence];
    if (key !== undefined) keys.push(key);
    left = left.slice(1 + sequence.length);
  }
  return { keys, rest: "" };
}
