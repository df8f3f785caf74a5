/** Which proxy the environment asks for, by Go's rules: what client-go does, and what kubeadm relies on. Pure. */
import { cidrContains, isLoopback, parseCidr, parseIpAddress } from "../../base/ip.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** The proxy's URL for requests to `server`; undefined where they go straight. */
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

/** The first of the names that says something. */
function variable(environment: Environment, ...names: readonly string[]): string {
  return names.map((name) => environment[name] ?? "").find((value) => value !== "") ?? "";
}

interface Target {
  /** Lower case, an IPv6 address without brackets. */
  readonly host: string;
  readonly port: string;
}

/** This machine itself is never reached through a proxy. */
function isExcepted(target: Target, noProxy: string): boolean {
  const address = parseIpAddress(target.host);
  if (target.host === "localhost" || (address !== undefined && isLoopback(address))) return true;
  return noProxy.split(",").some((entry) => matches(entry.trim().toLowerCase(), target));
}

/** `*`, a network, an address, a domain (`a.b`: with what is below it; `.a.b`: only that); `:port` may follow. */
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
