/** The terminal that stdin and stdout are: alternate screen, keys one by one, and everything as it was at the end. */
import { emitKeypressEvents, type Interface, type Key } from "node:readline";
import type { Size } from "./screen.ts";

export interface TerminalListener {
  readonly onKey: (key: string) => void;
  readonly onResize: () => void;
  /** A signal asks for the end; the exit code is 128 + n, as shells expect. */
  readonly onSignal: (exitCode: number) => void;
}

export interface Terminal {
  size(): Size;
  write(text: string): void;
  /** From now on; replaces nobody. */
  listen(listener: TerminalListener): void;
  /** As it was. Closing twice is fine. */
  close(): void;
}

/** What of the process we touch; tests bring their own. */
export interface TerminalProcess {
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: Pick<NodeJS.WriteStream, "on" | "off" | "columns" | "rows"> & {
    write(text: string): unknown;
  };
  on(event: string, listener: () => void): unknown;
  off(event: string, listener: () => void): unknown;
}

const signals = [
  { name: "SIGHUP", number: 1 },
  { name: "SIGINT", number: 2 },
  { name: "SIGQUIT", number: 3 },
  { name: "SIGTERM", number: 15 },
] as const;

/** xterm's alternate screen, and the cursor hidden; and back. */
const enterText = "\u001b[?1049h\u001b[?25l\u001b[2J";
const leaveText = "\u001b[0m\u001b[?25h\u001b[?1049l";

/** A lone escape is the key once nothing followed for this long. */
const escapeWaitMs = 50;

export function openTerminal(target: TerminalProcess = process): Terminal {
  const { stdin, stdout } = target;
  const offs: (() => void)[] = [];
  let isOpen = true;
  const close = (): void => {
    if (!isOpen) return;
    isOpen = false;
    for (const off of offs) off();
    stdin.setRawMode(false);
    stdin.pause();
    stdout.write(leaveText);
  };
  stdin.setRawMode(true);
  stdout.write(enterText);
  // Whatever ends the process: an error that nobody caught, too.
  target.on("exit", close);
  offs.push(() => target.off("exit", close));
  return {
    size: () => ({ columns: stdout.columns || 80, rows: stdout.rows || 24 }),
    write: (text) => void (isOpen && stdout.write(text)),
    listen: ({ onKey, onResize, onSignal }) => {
      offs.push(listenForKeys(stdin, onKey));
      stdout.on("resize", onResize);
      offs.push(() => stdout.off("resize", onResize));
      for (const { name, number } of signals) {
        const listener = (): void => onSignal(128 + number);
        target.on(name, listener);
        offs.push(() => target.off(name, listener));
      }
    },
    close,
  };
}

/** By the names of `node:readline`; characters stand for themselves. */
const keyNames: Readonly<Record<string, string>> = {
  ...{ up: "up", down: "down", left: "left", right: "right", home: "home", end: "end" },
  ...{ pageup: "page-up", pagedown: "page-down", return: "enter", enter: "enter" },
  ...{ backspace: "backspace", escape: "escape" },
};

function listenForKeys(stdin: TerminalProcess["stdin"], onKey: (key: string) => void): () => void {
  const take = (text: string | undefined, { name = "", sequence = "", ctrl, meta }: Key): void => {
    // Nothing is asked for with Alt: an escape and what follows it at once are two keys.
    const isAlt = meta === true && name !== "escape";
    if (isAlt || sequence.startsWith("\u001b\u001b")) onKey("escape");
    const typed = text ?? (isAlt ? sequence.slice(-1) : "");
    const character = /^\P{Cc}$/u.test(typed) ? typed : undefined;
    // Control-D is the end of input, as of `cat`.
    const interrupt = name === "c" || name === "d" ? "interrupt" : undefined;
    const key = ctrl === true ? interrupt : (keyNames[name] ?? character);
    if (key !== undefined) onKey(key);
  };
  // Nobody is at the other end any more.
  const end = (): void => onKey("interrupt");
  emitKeypressEvents(stdin, { escapeCodeTimeout: escapeWaitMs } as unknown as Interface);
  stdin.on("keypress", take);
  stdin.on("end", end);
  stdin.resume();
  return () => {
    stdin.off("keypress", take);
    stdin.off("end", end);
  };
}
