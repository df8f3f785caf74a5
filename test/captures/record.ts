/**
 * Records what ipvsadm(8) and conntrack(8) say to the kernel and what it answers. Runs in the lab and
 * prints the file:
 *
 *     node test/lab/boot.ts -- node test/captures/record.ts ipvs > test/captures/ipvs.txt
 *     node test/lab/boot.ts -- node test/captures/record.ts conntrack > test/captures/conntrack.txt
 *     node test/captures/record.ts conntrack-zones > test/captures/conntrack-zones.txt
 */
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { release } from "node:os";

interface Recording {
  readonly name: string;
  /** Shell commands that make the state, in a network namespace of its own. */
  readonly before: readonly string[];
  readonly command: string;
}

const web = "ipvsadm -A -t 10.96.0.1:443 -s rr";
const webTarget = "ipvsadm -a -t 10.96.0.1:443 -r 10.244.1.5:6443 -m -w 1";
const dns6 = "ipvsadm -A -u [fd00:96::a]:53 -s rr -p 10800";
const dns6Target = "ipvsadm -a -u [fd00:96::a]:53 -r [fd00:244::5]:5353 -m -w 1";
const hash = "ipvsadm -A -t 10.96.0.2:80 -s mh -b mh-fallback,mh-port";
const flowTuple = "-s 192.0.2.1 -d 10.96.0.10 --sport 4000 --dport 53";
const replyPorts = "--reply-port-src 5353 --reply-port-dst 4000";
const flow = `conntrack -I -p udp ${flowTuple} -r 10.244.1.5 -q 192.0.2.1 ${replyPorts} -t 60`;
const flowTuple6 = "-s fd00::1 -d fd00:96::a --sport 4000 --dport 53";
const flow6 = `conntrack -I -p udp ${flowTuple6} -r fd00:244::5 -q fd00::1 ${replyPorts} -t 60`;
const tcpFlow =
  "conntrack -I -p tcp -s 192.0.2.1 -d 10.96.0.1 --sport 4001 --dport 443 -t 60 --state ESTABLISHED";
/** The lab kernel has no zones: recorded apart, in a namespace of a machine that has. */
const zoneFlow = `${flow} -w 7`;

const recordings: Readonly<Record<string, readonly Recording[]>> = {
  ipvs: [
    { name: "resolve-family", before: [], command: "ipvsadm -L -n" },
    { name: "create-virtual-server", before: [], command: web },
    { name: "create-virtual-server-persistent-ipv6", before: [], command: dns6 },
    { name: "create-virtual-server-with-scheduler-flags", before: [], command: hash },
    { name: "create-virtual-server-that-exists", before: [web], command: web },
    {
      name: "create-virtual-server-of-unknown-scheduler",
      before: [],
      command: "ipvsadm -A -t 10.96.0.1:443 -s twos",
    },
    { name: "update-virtual-server", before: [web], command: "ipvsadm -E -t 10.96.0.1:443 -s lc" },
    {
      name: "update-virtual-server-that-is-absent",
      before: [],
      command: "ipvsadm -E -t 10.96.0.1:443 -s lc",
    },
    { name: "remove-virtual-server", before: [web], command: "ipvsadm -D -t 10.96.0.1:443" },
    { name: "create-real-server", before: [web], command: webTarget },
    { name: "create-real-server-ipv6", before: [dns6], command: dns6Target },
    {
      name: "update-real-server",
      before: [web, webTarget],
      command: "ipvsadm -e -t 10.96.0.1:443 -r 10.244.1.5:6443 -m -w 0",
    },
    {
      name: "remove-real-server",
      before: [web, webTarget],
      command: "ipvsadm -d -t 10.96.0.1:443 -r 10.244.1.5:6443",
    },
    {
      name: "list",
      before: [web, webTarget, dns6, dns6Target, hash, "ipvsadm -A -f 7 -s rr"],
      command: "ipvsadm -L -n",
    },
    { name: "read-timeouts", before: [], command: "ipvsadm -L --timeout" },
    { name: "write-timeouts", before: [], command: "ipvsadm --set 900 120 300" },
  ],
  conntrack: [
    {
      name: "list-udp",
      before: [flow, tcpFlow],
      command: "conntrack -L -f ipv4 -p udp",
    },
    { name: "list-udp-ipv6", before: [flow6], command: "conntrack -L -f ipv6 -p udp" },
    { name: "delete-ipv6", before: [flow6], command: `conntrack -D -p udp ${flowTuple6}` },
    { name: "delete", before: [flow], command: `conntrack -D -p udp ${flowTuple}` },
  ],
  "conntrack-zones": [
    { name: "list-udp-with-zone", before: [flow, zoneFlow], command: "conntrack -L -f ipv4 -p udp" },
  ],
};

function record({ name, before, command }: Recording): string {
  const script = [
    "ip link set lo up",
    ...before.map((line) => `${line} >/dev/null 2>&1`),
    `strace -f -o /tmp/trace -e trace=sendto,sendmsg,recvfrom,recvmsg -e read=all -e write=all ${command} >/dev/null 2>&1`,
  ].join("\n");
  spawnSync("unshare", ["-n", "sh", "-c", script], { stdio: "ignore" });
  const all = datagrams(readFileSync("/tmp/trace", "utf8"));
  const lines = name === "resolve-family" ? all.slice(0, 3) : withoutPreamble(all);
  return [`## ${name}`, ...before.map((line) => `# after: ${line}`), `# ${command}`, ...lines].join("\n");
}

/** ipvsadm asks for the family and for IPVS' version before each request: these are left out. */
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

/** `sent 20 00 …` and `received …`, a line per datagram; the looks ahead (MSG_PEEK) are left out. */
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
const tool = facility === "ipvs" ? "ipvsadm" : "conntrack";
const version = execFileSync(tool, ["--version"], { encoding: "utf8" }).split("\n")[0];
console.log(`# ${version?.trim()}\n# Linux ${release()}\n# made by test/captures/record.ts\n`);
for (const recording of recordings[facility] ?? []) console.log(`${record(recording)}\n`);
