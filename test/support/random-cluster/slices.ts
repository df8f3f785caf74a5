/** EndpointSlices with endpoints in every state, valid and invalid. */
import fc from "fast-check";
import { type ApiObject, endpoint, endpointSlice, slicePort } from "../objects.ts";
import { type Fields, mostly, namespaces, present, serviceNames } from "./fields.ts";

const sliceLetters = ["x", "y", "z"];

const ready = { ready: true, serving: true, terminating: false };
const conditions = fc.oneof(
  fc.constantFrom<Fields | undefined>(undefined, {}, { ready: true }, ready),
  mostly<Fields>(
    [{ ready: false }, { ready: false, serving: true, terminating: true }],
    [{ ready: false, serving: false, terminating: true }, { ready: "yes" }],
  ),
);

const hints = mostly<Fields | undefined>(
  [undefined, { forZones: [{ name: "z1" }] }, { forZones: [{ name: "z2" }] }],
  [{ forZones: [{ name: "z1" }], forNodes: [{ name: "node-1" }] }, { forNodes: [{ name: "n" }] }],
);

function endpointsOf(addressType: string, addresses: readonly string[]): fc.Arbitrary<Fields> {
  const nodeNames = ["node-1", "node-1", "node-2", undefined];
  const one = fc
    .record({
      address: fc.constantFrom(...addresses),
      conditions,
      hints,
      nodeName: fc.constantFrom(...nodeNames),
    })
    .map(({ address, ...rest }) => present({ ...endpoint(address), ...rest }));
  return fc.array(one, { maxLength: 4 }).map((endpoints) => ({ addressType, endpoints }));
}

const pods4 = ["10.244.1.1", "10.244.1.2", "10.244.2.1", "10.244.2.2"];
const pods6 = ["fd00:244:1::1", "fd00:244:1::2", "fd00:244:2::1"];

/** One address is also an external IP. Behind the first Service, it belongs to an API server. */
const sliceEndpoints = fc.oneof(
  { weight: 6, arbitrary: endpointsOf("IPv4", [...pods4, "203.0.113.1", "1.2.3"]) },
  { weight: 4, arbitrary: endpointsOf("IPv6", [...pods6, "10.244.1.1"]) },
  { weight: 1, arbitrary: endpointsOf("FQDN", ["pod.example.org"]) },
);

const slicePorts = fc.array(
  mostly<Fields>(
    [
      { name: "http", port: 8080 },
      { name: "http", port: 8081 },
      { name: "https", port: 8443 },
      { name: "dns", port: 5353, protocol: "UDP" },
      { name: "dns", port: 5353 },
      { name: "quic", port: 8443, protocol: "UDP" },
      { name: "sctp", port: 8080, protocol: "SCTP" },
      { name: "", port: 8080 },
    ],
    [
      { name: "http", port: undefined },
      { name: undefined, port: 8080 },
    ],
  ).map((port) => present(slicePort(port))),
  { minLength: 1, maxLength: 4 },
);

/** A slice keeps its name and may move to another Service. */
export const slices: fc.Arbitrary<ApiObject> = fc
  .record({
    index: fc.nat(serviceNames.length - 1),
    letter: fc.constantFrom(...sliceLetters),
    isMoved: mostly([false], [true]),
    isHeadless: mostly([false], [true]),
    content: sliceEndpoints,
    ports: slicePorts,
    namespace: namespaces,
    weight: mostly([undefined], ["0", "3", "heavy"]),
  })
  .map(({ index, letter, isMoved, isHeadless, content, ports, namespace, weight }) => {
    const owner = serviceNames[(index + (isMoved ? 1 : 0)) % serviceNames.length] as string;
    return endpointSlice({
      name: `${serviceNames[index]}-${letter}`,
      service: owner,
      namespace,
      ...(weight === undefined
        ? {}
        : { metadata: { annotations: { "kube-ipvs.io/weight": weight } } }),
      labels: isHeadless ? { "service.kubernetes.io/headless": "" } : {},
      ports,
      ...content,
    });
  });
