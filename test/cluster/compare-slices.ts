/** Compares two controllers' EndpointSlices by the fields that consumers read. Pure. */

export interface EndpointSlice {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly addressType: string;
  readonly ports?: readonly Port[] | null;
  readonly endpoints?: readonly Endpoint[] | null;
}

interface Port {
  readonly name?: string;
  readonly protocol?: string;
  readonly port?: number;
  readonly appProtocol?: string;
}

interface Endpoint {
  readonly addresses: readonly string[];
  readonly conditions?: Readonly<Record<string, boolean>>;
  readonly hostname?: string;
  readonly nodeName?: string;
  readonly zone?: string;
  readonly hints?: object;
  readonly targetRef?: { readonly kind?: string; readonly name?: string };
}

const serviceLabel = "kubernetes.io/service-name";

/** Returns a line for each endpoint with its ports, and for each slice without endpoints. */
function linesOf(slices: readonly EndpointSlice[]): readonly string[] {
  const lines = slices.flatMap((slice) => {
    const labels = slice.metadata.labels ?? {};
    const headless = labels["service.kubernetes.io/headless"] === undefined ? "" : " headless";
    const head = `${labels[serviceLabel]}${headless} ${slice.addressType}`;
    const ports = (slice.ports ?? []).map(portText).sort().join(" ");
    const endpoints = (slice.endpoints ?? []).map(endpointText);
    return (endpoints.length === 0 ? [""] : endpoints).map((text) => `${head} [${ports}] ${text}`);
  });
  return lines.sort();
}

function portText({ name = "", protocol = "TCP", port, appProtocol = "" }: Port): string {
  return `${name}=${port ?? "any"}/${protocol}${appProtocol && `(${appProtocol})`}`;
}

function endpointText(endpoint: Endpoint): string {
  const { addresses, conditions = {}, hostname, nodeName, zone, hints, targetRef } = endpoint;
  const states = Object.keys(conditions).filter((name) => conditions[name] === true);
  return JSON.stringify([
    addresses,
    states.sort(),
    hostname,
    nodeName,
    zone,
    hints,
    targetRef?.name,
  ]);
}

/** Returns the lines that only one controller has, marked with - for kube-controller-manager and + for kube-ipvs. */
export function differencesOf(
  theirs: readonly EndpointSlice[],
  ours: readonly EndpointSlice[],
): readonly string[] {
  const [wanted, made] = [linesOf(theirs), linesOf(ours)];
  const [all, found] = [new Set(wanted), new Set(made)];
  return [
    ...wanted.filter((line) => !found.has(line)).map((line) => `- ${line}`),
    ...made.filter((line) => !all.has(line)).map((line) => `+ ${line}`),
  ];
}
