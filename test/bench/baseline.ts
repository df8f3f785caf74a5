/**
 * The minimum work of a restart: lists all Services and EndpointSlices in pages and reads the kernel's IPVS, sets and
 * addresses once, without storing or comparing anything. Usage: node test/bench/baseline.ts URL
 */
import { Agent, get } from "node:http";
import { silentLogger } from "../../src/base/log.ts";
import { openKernel } from "../../src/kernel/open-kernel.ts";
import { setFor } from "../../src/plan/sets.ts";
import { observeIpvs } from "../support/observe-ipvs.ts";

interface Page {
  readonly metadata: { readonly continue?: string };
  readonly items: readonly unknown[];
}

const pageSize = 500;
const paths = ["/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"];
const agent = new Agent({ keepAlive: true });

function read(url: string): Promise<Page> {
  return new Promise((resolve, reject) => {
    get(url, { agent }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => resolve(JSON.parse(Buffer.concat(chunks).toString()) as Page));
    }).on("error", reject);
  });
}

async function list(url: string): Promise<number> {
  let [count, next] = [0, ""];
  do {
    const page = await read(`${url}?limit=${pageSize}&continue=${next}`);
    count += page.items.length;
    next = page.metadata.continue ?? "";
  } while (next !== "");
  return count;
}

const [server = ""] = process.argv.slice(2);
const counts = [];
for (const path of paths) counts.push(await list(server + path));
agent.destroy();
const kernel = await openKernel({ log: silentLogger });
const virtualServers = await observeIpvs(kernel.ipvs);
const entries = await kernel.ipSets.listEntries(setFor("clusterIp", "IPv4"));
const addresses = await kernel.link.listAddresses();
console.log(...counts, virtualServers.length, entries.length, addresses.length);
kernel.close();
