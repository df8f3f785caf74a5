import type { ServedAddresses } from "../../api/source.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel } from "../../kernel/kernel.ts";

/**
 * What the kernel serves at a start: the addresses of kube-ipvs0, and the real servers behind them that get
 * new connections. `undefined` where no list is guarded.
 */
export async function readServedAddresses(
  { ipvs, link }: Pick<Kernel, "ipvs" | "link">,
  { objectsFrom, listGuardPercent }: Pick<Config, "objectsFrom" | "listGuardPercent">,
): Promise<ServedAddresses | undefined> {
  if (objectsFrom.kind !== "cluster" || listGuardPercent === 0) return undefined;
  const device = await link.find();
  if (device === undefined) return undefined;
  const addresses = await link.listAddresses();
  const services = new Set(
    addresses.filter(({ linkIndex }) => linkIndex === device.index).map(({ address }) => address),
  );
  const virtualServers = await ipvs.listVirtualServers();
  const served = virtualServers.filter(({ address }) => services.has(address));
  const realServers = await ipvs.readRealServers(served);
  const endpoints = realServers
    .flat()
    .filter(({ weight }) => weight > 0)
    .map(({ address }) => address);
  return { services, endpointslices: new Set(endpoints) };
}
