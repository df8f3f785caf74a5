import { hostPort } from "../../base/ip.ts";
import type { SoughtListener } from "../../userspace/find-listeners.ts";

/** `+ TCP 0.0.0.0 at a free port for 10.96.0.10:80, node port 30080`: a listener to open. Pure. */
export function listenerText({ wanted, address }: SoughtListener): string {
  const { protocol, nodePort } = wanted;
  const place =
    address.port === 0 ? `${address.host} at a free port` : hostPort(address.host, address.port);
  const ways = [...addressesOf(wanted), ...(nodePort === 0 ? [] : [`node port ${nodePort}`])];
  const led = address.isRedirected === true ? ` for ${ways.join(", ")}` : "";
  return `+ ${protocol} ${place}${led}`;
}

/** `10.96.0.10:80` and so on: what rules lead to it. Pure. */
export function addressesOf({
  addresses,
  port,
}: Pick<SoughtListener["wanted"], "addresses" | "port">): readonly string[] {
  return addresses.map((address) => hostPort(address, port));
}
