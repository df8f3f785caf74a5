/**
 * Records the netlink datagrams between the kernel and ipvsadm(8), conntrack(8), ipset(8) and ip(8). Runs in the lab
 * and prints the file:
 *
 *     node test/lab/boot.ts -- node test/captures/record.ts ipvs > test/captures/ipvs.txt
 *     node test/lab/boot.ts -- node test/captures/record.ts conntrack > test/captures/conntrack.txt
 *     node test/lab/boot.ts -- node test/captures/record.ts ipset > test/captures/ipset.txt
 *     node test/lab/boot.ts -- node test/captures/record.ts link > test/captures/link.txt
 *     node test/captures/record.ts conntrack-zones > test/captures/conntrack-zones.txt
 */
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { release } from "node:os";
import { type Recording, recordings } from "./recordings.ts";

const tools: Readonly<Record<string, string>> = { ipvs: "ipvsadm", ipset: "ipset", link: "ip" };

function record({ name, before, command }: Recording): string {
  const script = [
    "ip link set lo up",
    ...before.map((line) => `${line} >/dev/null 2>&1`),
    `strace -f -o /tmp/trace -e trace=sendto,sendmsg,recvfrom,recvmsg -e read=all -e write=all ${command} >/dev/null 2>&1`,
  ].join("\n");
  spawnSync("unshare", ["-n", "sh", "-c", script], { stdio: "ignore" });
  const all = datagrams(readFileSync("/tmp/trace", "utf8"));
  const lines = linesOf(name, all);
  return [`## ${name}`, ...before.map((line) => `# after: ${line}`), `# ${command}`, ...lines].join("\n");
}

function linesOf(name: string, all: readonly string[]): readonly string[] {
  if (name === "resolve-family") return all.slice(0, 3);
  return facility === "ipvs" ? withoutPreamble(all) : all;
}

/** Omits the requests for the family and the IPVS version, which ipvsadm sends before each command. */
function withoutPreamble(lines: readonly string[]): string[] {
  let isPreamble = false;
  return lines.filter((line) => {
    const bytes = line.split(" ").slice(1);
    const isControl = bytes[4] === "10" && bytes[5] === "00";
    const isGetInformation = bytes[4] === "1c" && bytes[16] === "0f";
    if (line.startsWith("sent")) isPreamble = isControl || isGetInformation;
    return !isPreamble;
  });
}

/** Returns one line per datagram: `sent 20 00 …` or `received …`. Omits reads with MSG_PEEK. */
function datagrams(trace: string): string[] {
  const found: string[] = [];
  let direction: string | undefined;
  let bytes: string[] = [];
  const finish = (): void => {
    if (direction !== undefined && bytes.length > 0) found.push(`${direction} ${bytes.join(" ")}`);
    bytes = [];
  };
  for (const line of trace.split("\n")) {
    const dump = /^ \| [0-9a-f]+ +((?:[0-9a-f]{2} {1,2})+)/.exec(line);
    if (dump !== null) bytes.push(...(dump[1] ?? "").trim().split(/ +/));
    const call = /\b(send|recv)(?:msg|to|from)\(/.exec(line);
    if (call === null) continue;
    finish();
    direction = call[1] === "send" ? "sent" : line.includes("MSG_PEEK") ? undefined : "received";
  }
  finish();
  return found;
}

const facility = process.argv[2] ?? "";
const tool = tools[facility] ?? "conntrack";
const version = execFileSync(tool, [tool === "ip" ? "-Version" : "--version"], {
  encoding: "utf8",
}).split("\n")[0];
console.log(`# ${version?.trim()}\n# Linux ${release()}\n# made by test/captures/record.ts\n`);
for (const recording of recordings[facility] ?? []) console.log(`${record(recording)}\n`);
