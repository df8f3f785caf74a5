/** The protocol between the acceptance test's pods. Pure. */

/** Every backend listens here, over TCP and UDP. */
export const backendPort = 8080;

export interface Question {
  readonly protocol: "TCP" | "UDP";
  readonly address: string;
  readonly port: number;
  /** Number of attempts, one after the other. Each has its own connection or socket. */
  readonly count: number;
}

/** The backend's name, and the source address that it saw. */
export interface Answer {
  readonly name: string;
  readonly from: string;
}

export interface Answers {
  readonly answers: readonly Answer[];
  /** Errno names, or `timeout`. */
  readonly errors: readonly string[];
}

/** The result of a long connection. */
export interface HeldConnection {
  readonly name: string;
  readonly pings: number;
  /** `open`, `end`, `no answer` (to the last line), or an errno name. */
  readonly ending: string;
}

/** A client's first line. `name` requests the name, and `hold` also requests an echo of all later lines. */
export const requests = { name: "name", hold: "hold" } as const;

/** A backend's answer: `backend-0 10.244.1.5`. IPv4-mapped addresses are written as IPv4. */
export function greeting(name: string, remoteAddress: string | undefined): string {
  return `${name} ${(remoteAddress ?? "").replace(/^::ffff:(?=\d+\.)/, "")}`;
}

export function readGreeting(line: string): Answer {
  const [name = "", from = ""] = line.trim().split(" ");
  return { name, from };
}
