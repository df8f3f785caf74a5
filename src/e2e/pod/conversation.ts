/** What pods of an acceptance test say to each other: shared by both ends. Pure. */

/** Of every backend, for TCP and UDP. */
export const backendPort = 8080;

export interface Question {
  readonly protocol: "TCP" | "UDP";
  readonly address: string;
  readonly port: number;
  /** Connections, or datagrams from as many sockets, one after the other. */
  readonly count: number;
}

/** Who answered, and where the question came from as it saw it. */
export interface Answer {
  readonly name: string;
  readonly from: string;
}

/** About one question. */
export interface Answers {
  readonly answers: readonly Answer[];
  /** Errno names, or `timeout`. */
  readonly errors: readonly string[];
}

/** What became of one long connection. */
export interface HeldConnection {
  readonly name: string;
  readonly pings: number;
  /** `open`, or the errno's name, or `end`. */
  readonly ending: string;
}

/** The first line of a client: who are you; or the same, and all later lines back. */
export const wishes = { name: "name", hold: "hold" } as const;

/** `backend-0 10.244.1.5`. IPv4 clients of an IPv6 socket are written as such. */
export function greeting(name: string, remoteAddress: string | undefined): string {
  return `${name} ${(remoteAddress ?? "").replace(/^::ffff:(?=\d+\.)/, "")}`;
}

export function readGreeting(line: string): Answer {
  const [name = "", from = ""] = line.trim().split(" ");
  return { name, from };
}
