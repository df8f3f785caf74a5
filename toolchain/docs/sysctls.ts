/** docs/sysctls.md: every kernel setting that is written, from the functions that plan them. */
import { planConntrackLimits } from "../../src/plan/conntrack-limits.ts";
import { planSysctls } from "../../src/plan/sysctls.ts";
import { code, documentOf, table } from "./markdown.ts";

const introduction: readonly string[] = [
  "# Kernel settings",
  "",
  "Written by `make docs` from the functions that plan them. Each is read first; one that has its value is never written,",
  "so a container without the right to write works once somebody else has set them: the node itself, or an init",
  "container with `--init-only`. One that differs and cannot be written ends the start with a line that names it. Nothing",
  "is set back when the program ends, nor by `--cleanup`.",
];

/** Why, by path; a setting without a line here fails the document. */
const reasons: Readonly<Record<string, string>> = {
  "net/ipv4/vs/conntrack": "flows of IPVS keep their tracking entries: masquerading needs them",
  "net/ipv4/vs/expire_nodest_conn":
    "a packet for a real server that is gone ends its connection at once",
  "net/ipv4/vs/expire_quiescent_template":
    "session affinity does not hold clients at a real server that drains",
  "net/ipv4/ip_forward": "the node forwards to pods",
  "net/ipv4/vs/conn_reuse_mode":
    "a reused client port would cost a second; newer kernels do not need it",
  "net/ipv4/conf/all/arp_ignore": "ARP is answered for addresses of the asked interface only",
  "net/ipv4/conf/all/arp_announce": "ARP is asked from an address of the interface",
  "net/netfilter/nf_conntrack_tcp_timeout_established": "how long an idle connection is tracked",
  "net/netfilter/nf_conntrack_tcp_timeout_close_wait": "how long a half-closed one is tracked",
  "net/netfilter/nf_conntrack_tcp_be_liberal": "segments outside of the window are not dropped",
  "net/netfilter/nf_conntrack_udp_timeout": "how long a UDP flow is tracked",
  "net/netfilter/nf_conntrack_udp_timeout_stream": "how long one with answers is tracked",
};

interface Setting {
  readonly path: string;
  readonly value: string;
  readonly when: string;
}

export function sysctlsDocument(): string {
  const rows = [...ipvsSettings(), ...limitSettings()].map(({ path, value, when }) => {
    const reason = reasons[path];
    if (reason === undefined) throw new Error(`No reason for ${path}`);
    return [code(path.replaceAll("/", ".")), value, when, reason];
  });
  return documentOf([
    introduction,
    table(["Setting", "Value", "When", "Why"], [...rows, ...tableSizes]),
  ]);
}

/** Differences between calls say what a setting depends on. */
function ipvsSettings(): readonly Setting[] {
  const old = "5.8.0";
  const always = planSysctls({ isStrictArp: false, kernelRelease: "6.1.0" });
  const onOld = planSysctls({ isStrictArp: false, kernelRelease: old });
  const strict = planSysctls({ isStrictArp: true, kernelRelease: "6.1.0" });
  const added = (more: typeof always): typeof always =>
    more.filter(({ path }) => !always.some((known) => known.path === path));
  return [
    ...always.map((setting) => ({ ...setting, when: "always" })),
    ...added(onOld).map((setting) => ({ ...setting, when: "kernels 4.1 to 5.8" })),
    ...added(strict).map((setting) => ({ ...setting, when: "`ipvs.strictARP`" })),
  ];
}

function limitSettings(): readonly Setting[] {
  const { sysctls } = planConntrackLimits(
    {
      maxPerCore: 0,
      min: 0,
      tcpEstablishedSeconds: 86_400,
      tcpCloseWaitSeconds: 3600,
      udpSeconds: 1,
      udpStreamSeconds: 1,
      isTcpLiberal: true,
    },
    1,
  );
  const fields = [
    ["`conntrack.tcpEstablishedTimeout`, unless 0s", "86400 (24h)"],
    ["`conntrack.tcpCloseWaitTimeout`, unless 0s", "3600 (1h)"],
    ["`conntrack.tcpBeLiberal`", "1"],
    ["`conntrack.udpTimeout`, unless 0s", "as given"],
    ["`conntrack.udpStreamTimeout`, unless 0s", "as given"],
  ] as const;
  if (sysctls.length !== fields.length) throw new Error("Another number of conntrack settings");
  return sysctls.map(({ path }, index) => {
    const [when, value] = fields[index] ?? ["", ""];
    return { path, value, when };
  });
}

const tableSizes: readonly (readonly string[])[] = [
  [
    code("net.netfilter.nf_conntrack_max"),
    "`maxPerCore` × processors, at least `min`, at most 1048576",
    "`conntrack.maxPerCore`, unless 0",
    "room for the flows of a large node",
  ],
  [
    code("/sys/module/nf_conntrack/parameters/hashsize"),
    "a quarter of that, if it is less",
    "as above",
    "short chains in the table",
  ],
];
