/** Like client-go, selects the proxy from environment variables by Go's rules, on which kubeadm relies. Pure. */
import { cidrContains, isLoopback, parseCidr, parseIpAddress } from "../../base/ip.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** The proxy's URL for requests to `server`. Undefined for a direct connection. */
export function proxyFor(server: URL, environment: Environment): string | undefined {
  const isTls = server.protocol === "https:";
  const proxy = isTls
    ? variable(environment, "HTTPS_PROXY", "https_proxy")
    : variable(environment, "HTTP_PROXY", "http_proxy");
  if (proxy === "") return undefined;
  const host = server.hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  const port = server.port === "" ? (isTls ? "443" : "80") : server.port;
  if (isExcepted({ host, port }, variable(environment, "NO_PROXY", "no_proxy"))) return undefined;
  return proxy.includes("://") ? proxy : `http://${proxy}`;
}

/** The first non-empty variable. */
function variable(environment: Environment, ...names: readonly string[]): string {
  return names.map((name) => environment[name] ?? "").find((value) => value !== "") ?? "";
}

interface Target {
  /** Host in lower case. IPv6 addresses have no brackets. */
  readonly host: string;
  readonly port: string;
}

/** Whether requests bypass the proxy. Requests to this machine always do. */
function isExcepted(target: Target, noProxy: string): boolean {
  const address = parseIpAddress(target.host);
  if (target.host === "localhost" || (address !== undefined && isLoopback(address))) return true;
  return noProxy.split(",").some((entry) => matches(entry.trim().toLowerCase(), target));
}

/**
 * Whether a NO_PROXY entry matches: `*`, a network, an address, or a domain. `a.b` includes subdomains; `.a.b` matches
 * only subdomains. A port may follow as `:port`.
 */
function matches(entry: string, { host, port }: Target): boolean {
  if (entry === "") return false;
  if (entry === "*") return true;
  const address = parseIpAddress(host);
  const network = parseCidr(entry);
  if (network !== undefined) return address !== undefined && cidrContains(network, address);
  const { name, onlyPort } = splitPort(entry);
  if (onlyPort !== undefined && onlyPort !== port) return false;
  const exceptedAddress = parseIpAddress(name);
  if (exceptedAddress !== undefined) return exceptedAddress === address;
  const domain = name.replace(/^\*(?=\.)/, "");
  return domain.startsWith(".")
    ? host.endsWith(domain)
    : host === domain || host.endsWith(`.${domain}`);
}

function splitPort(entry: string): { readonly name: string; readonly onlyPort?: string } {
  const [, bracketed, portBehind] = /^\[(.+)\](?::(\d+))?$/.exec(entry) ?? [];
  if (bracketed !== undefined) {
    return { name: bracketed, ...(portBehind === undefined ? {} : { onlyPort: portBehind }) };
  }
  const [, name = entry, onlyPort] = /^([^:]+):(\d+)$/.exec(entry) ?? [];
  return { name, ...(onlyPort === undefined ? {} : { onlyPort }) };
}
