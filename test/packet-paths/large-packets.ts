/** Packets that are too large for a link on their path: both ends assume 1500 bytes, but the link's MTU is 1300. */
import { expectationOf, inColumns } from "./matrix.ts";
import { type Path, type Section, type Size, transports } from "./path.ts";
import { frontends, type ServiceName } from "./services.ts";

const size: Size = { TCP: 100_000, UDP: 1_400 };

/** The source that an endpoint sees for a client in a pod, and for any other client. */
const sources: readonly (readonly [ServiceName, masqueraded: string])[] = [
  ["narrow", "gateway"],
  ["remote-narrow", "node"],
];

export const large: Section = {
  title: "Large requests",
  text: [
    "The endpoint's link has an MTU of 1300, but both ends assume 1500. The client sends " +
      `${size.TCP} bytes over TCP, or resends a datagram of ${size.UDP} bytes until it arrives. The ICMP size error ` +
      "reaches the client through IPVS and masquerading, with the addresses that the client uses. On the " +
      "node itself, the error affects only the next IPv4 socket, not one that is already connected.",
    "One path does not work: IPv6 datagrams from the node's own processes. The process learns the MTU (`ip " +
      "-6 route get` shows it), but Linux fragments IPv6 datagrams after IPVS, and IPVS drops those that are " +
      "too large for the endpoint's link. IPv4 datagrams are fragmented before IPVS, or allow fragmentation. " +
      "kube-proxy's IPVS mode has the same problem. Use the same MTU for node and pod links.",
  ],
  headings: ["address", "endpoint", "from"],
  columns: transports,
  paths: sources.flatMap(([service, masqueraded]) =>
    frontends.flatMap((frontend) =>
      ["pod", "node", "client"].map((from): Path => {
        const isKept = from === "pod" && frontend === "cluster IP";
        const answered = `${service}←${isKept ? from : masqueraded}`;
        return {
          labels: [frontend, service, from],
          from,
          target: { kind: "service", service, frontend },
          ...expectationOf(
            from === "node" ? [answered, inColumns("UDP IPv6", "silence")] : answered,
          ),
          payload: size,
          ...(from === "node" ? { isRehearsed: true } : {}),
        };
      }),
    ),
  ),
};

export const largeAnswers: Section = {
  title: "Large answers",
  text: [
    "The client `far` is external, behind a link with an MTU of 1300. The ICMP error for a reply that is " +
      "too large is sent to the virtual IP. IPVS must forward the error to the endpoint that sent the reply.",
  ],
  headings: ["address", "traffic policy", "from"],
  columns: transports,
  paths: frontends.flatMap((frontend) => [
    {
      labels: [frontend, "Cluster", "far"],
      from: "far",
      target: { kind: "service", service: "single", frontend },
      expected: "local←gateway",
      answer: size,
    },
    {
      labels: [frontend, "Local", "far"],
      from: "far",
      target: { kind: "service", service: "single-local", frontend },
      expected: frontend === "cluster IP" ? "local←gateway" : "local←far",
      answer: size,
    },
  ]),
};
