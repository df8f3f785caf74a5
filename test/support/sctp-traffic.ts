/**
 * SCTP between the client and the pods in `node-network.ts`. Node.js has no SCTP sockets, so this uses Perl, which
 * every Debian system has, and the protocol number.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface, type Interface } from "node:readline";
import type { Readable, Writable } from "node:stream";

type Child = ChildProcessByStdio<Writable, Readable, null>;

/** IPPROTO_SCTP from linux/in.h. */
const protocolNumber = 132;
const openSocket = `socket(my $s, AF_INET, SOCK_STREAM, ${protocolNumber}) or die "socket: $!"; $| = 1;`;

/** Prints `ready`, then sends each message back, preceded by its name. Arguments: port, name. */
const serverScript = `
${openSocket}
bind($s, sockaddr_in($ARGV[0], INADDR_ANY)) and listen($s, 9) or die "listen: $!";
$SIG{CHLD} = "IGNORE";
print "ready\\n";
while (accept(my $c, $s)) {
  next if fork;
  while (sysread($c, my $text, 1000)) { syswrite($c, "$ARGV[1] $text"); }
  exit;
}`;

/** Sends each line of its input and prints the answer. Exits at the end of its input. Arguments: address, port. */
const clientScript = `
${openSocket}
connect($s, sockaddr_in($ARGV[1], inet_aton($ARGV[0]))) or die "connect: $!";
print "open\\n";
while (<STDIN>) {
  syswrite($s, $_) or last;
  sysread($s, my $answer, 1000) or last;
  print $answer;
}
close($s); print "over\\n";`;

/** Resolves when the pod is listening. The caller must stop it. */
export async function startSctpPod(name: string, port: number): Promise<Child> {
  const child = startPerl(name, serverScript, [String(port), name]);
  await once(child.stdout, "data");
  return child;
}

/** An SCTP association of the client. */
export class Association {
  readonly #child: Child;
  readonly #lines: AsyncIterator<string>;

  private constructor(child: Child) {
    this.#child = child;
    const lines: Interface = createInterface(child.stdout);
    this.#lines = lines[Symbol.asyncIterator]();
  }

  static async open(address: string, port: number): Promise<Association> {
    const association = new Association(startPerl("client", clientScript, [address, String(port)]));
    await association.#next();
    return association;
  }

  /** Sends one message and returns the answer, or `over` if the peer has closed the association. */
  async ask(text: string): Promise<string> {
    this.#child.stdin.write(`${text}\n`);
    return this.#next();
  }

  /** Shuts down the association gracefully. */
  async close(): Promise<void> {
    this.#child.stdin.end();
    await this.#next();
  }

  /** Kills the client of an association that was cut off. */
  kill(): void {
    this.#child.kill("SIGKILL");
  }

  async #next(): Promise<string> {
    const { value, done } = await this.#lines.next();
    return done === true ? "over" : value;
  }
}

function startPerl(namespace: string, script: string, args: readonly string[]): Child {
  const command = ["netns", "exec", namespace, "perl", "-MSocket", "-we", script, ...args];
  return spawn("ip", command, { stdio: ["pipe", "pipe", "inherit"] });
}
