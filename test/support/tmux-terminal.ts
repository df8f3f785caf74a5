/** A real terminal in tmux, in which a test types and reads as a person would. */
import { execFileSync } from "node:child_process";
import { until } from "./lab-node.ts";
import { patienceMs } from "./patience.ts";

const server = ["-L", "kube-ipvs-test", "-f", "/dev/null"];

export class TmuxTerminal {
  constructor(columns: number, rows: number) {
    const size = ["-x", String(columns), "-y", String(rows)];
    tmux("new-session", "-d", "-s", "terminal", ...size, "env PS1='$ ' sh");
  }

  /** Types a command into its shell. */
  run(command: string): void {
    tmux("send-keys", "-t", "terminal", "clear", "Enter");
    tmux("send-keys", "-t", "terminal", "-l", command);
    this.press("Enter");
  }

  /** Presses keys by tmux's names: `Enter`, `Escape`, `q`. */
  press(...keys: readonly string[]): void {
    // Sends each key separately, because characters that directly follow an escape character belong to it.
    for (const key of keys) tmux("send-keys", "-t", "terminal", key);
  }

  resize(columns: number, rows: number): void {
    tmux("resize-window", "-t", "terminal", "-x", String(columns), "-y", String(rows));
  }

  screen(): string {
    return tmux("capture-pane", "-p", "-t", "terminal");
  }

  /** Returns a tmux variable, such as `#{alternate_on}`. */
  format(text: string): string {
    return tmux("display-message", "-p", "-t", "terminal", text).trim();
  }

  async shows(pattern: RegExp): Promise<void> {
    await until(
      async () => pattern.test(this.screen()),
      patienceMs,
      async () => `${pattern} is wanted, not\n${this.screen()}`,
    );
  }

  end(): void {
    tmux("kill-server");
  }
}

function tmux(...args: readonly string[]): string {
  return execFileSync("tmux", [...server, ...args], { encoding: "utf8" });
}
