/**
 * The terminal on stdin and stdout. Uses the alternate screen, reads single keys, and restores the terminal at the end.
 */
import { emitKeypressEvents, type Interface, type Key } from "node:readline";
import type { Size } from "./screen.ts";

export interface TerminalListener {
  readonly onKey: (key: string) => void;
  readonly onResize: () => void;
  /** Called when a signal ends the program. The exit code is 128 + the signal's number, as shells expect. */
  readonly onSignal: (exitCode: number) => void;
}

export interface Terminal {
  size(): Size;
  write(text: string): void;
  listen(listener: TerminalListener): void;
  /** Restores the terminal. A second call has no effect. */
  close(): void;
}

/** The parts of `process` that are used here, so that tests can replace them. */
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

/** Enters xterm's alternate screen and hides the cursor; `leaveText` reverts this. */
const enterText = "\u001b[?1049h\u001b[?25l\u001b[2J";
const leaveText = "\u001b[0m\u001b[?25h\u001b[?1049l";

/** An escape character is the escape key if no other character follows within this time. */
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
  // Restores the terminal no matter how the process ends, including after an uncaught error.
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

/** Key names of `node:readline` and the names used here. Printable characters are their own names. */
const keyNames: Readonly<Record<string, string>> = {
  ...{ up: "up", down: "down", left: "left", right: "right", home: "home", end: "end" },
  ...{ pageup: "page-up", pagedown: "page-down", return: "enter", enter: "enter" },
  ...{ backspace: "backspace", escape: "escape" },
};

function listenForKeys(stdin: TerminalProcess["stdin"], onKey: (key: string) => void): () => void {
  const take = (text: string | undefined, { name = "", sequence = "", ctrl, meta }: Key): void => {
    // No command uses Alt, so an escape character and a character that immediately follows are treated as two keys.
    const isAlt = meta === true && name !== "escape";
    if (isAlt || sequence.startsWith("\u001b\u001b")) onKey("escape");
    const typed = text ?? (isAlt ? sequence.slice(-1) : "");
    const character = /^\P{Cc}$/u.test(typed) ? typed : undefined;
    // Ctrl-D ends the input, as in `cat`.
    const interrupt = name === "c" || name === "d" ? "interrupt" : undefined;
    const key = ctrl === true ? interrupt : (keyNames[name] ?? character);
    if (key !== undefined) onKey(key);
  };
  // The terminal was closed.
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
