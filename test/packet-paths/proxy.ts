/** The proxy in this process: the composition root on objects in memory. */
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { loadConfig } from "../../src/config/load-config.ts";
import { configurationText } from "../golden/configuration.ts";
import { type InProcessDaemon, startInProcess } from "../support/in-process.ts";
import { MemorySource, type NamedObject } from "../support/memory-source.ts";
import { node } from "../support/objects.ts";
import { node2 } from "./places.ts";
import { serviceObjects } from "./services.ts";

export type Proxy = Pick<InProcessDaemon, "stop" | "view">;

type Fields = Readonly<Record<string, unknown>>;

/** Starts it in the namespace of this thread; resolves when every Service is in the kernel. */
export async function startProxy(fields: Fields = {}): Promise<Proxy> {
  // UDP flows must be gone before an affinity ends.
  const base = { kubeIpvs: { ignoreRunningKubeProxy: true }, ipvs: { udpTimeout: "5s" } };
  const text = configurationText({ ...base, ...fields });
  const path = "proxy.yaml";
  const readFile = (name: string): string => (name === path ? text : readFileSync(name, "utf8"));
  const { config } = loadConfig(new Map([["config", [path]]]), { readFile, hostname });
  const source = new MemorySource();
  source.apply(...([node(), ...serviceObjects()] as unknown as readonly NamedObject[]));
  const daemon = await startInProcess({ config, source });
  await daemon.settled();
  const others = [node({ name: "node-2", addresses: Object.values(node2) })];
  source.reportNodes(...(others as unknown as readonly NamedObject[]));
  await daemon.settled();
  return daemon;
}
