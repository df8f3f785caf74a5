/**
 * Measures the bytes that an API server sends to one node, in lists and in an event, with objects as large as real
 * ones. Sizes are uncompressed: real objects are less alike than these, so gzip would compress them less.
 */
import { get } from "node:http";
import { ApiServer } from "../../support/api-server/api-server.ts";
import { positions } from "../../support/many-services.ts";
import { shell } from "../../support/netns/network-namespace.ts";
import type { Case, CaseContext, CaseOutcome } from "../case.ts";
import { type ClusterSize, clusterOf, serviceOf, sizeText, slicesOf } from "../cluster.ts";
import type { Row } from "../rows.ts";

const sizes: readonly ClusterSize[] = [
  { services: 5_000, endpoints: 5 },
  { services: 5_000, endpoints: 50 },
];
const eventEndpoints: readonly number[] = [1, 5, 50, 100];
/** The daemon's page size. */
const pageSize = 500;
const paths = {
  services: "/api/v1/services",
  slices: "/apis/discovery.k8s.io/v1/endpointslices",
};

export const apiLoadCases: readonly Case[] = [
  {
    name: "api-load",
    title: "What the API server sends to one node",
    expectedSeconds: 15,
    run: (context) => run(context),
  },
];

async function run(context: CaseContext): Promise<CaseOutcome> {
  shell("ip link set lo up");
  const rows: Row[] = [];
  for (const size of sizes) {
    context.step(`lists, ${sizeText(size)}`);
    rows.push(...(await listRows(size)));
    context.keep(rows);
  }
  context.step("events");
  return { rows: [...rows, ...(await eventRows())] };
}

interface Listed {
  readonly requests: number;
  readonly plainBytes: number;
}

async function listRows(size: ClusterSize): Promise<readonly Row[]> {
  const server = await ApiServer.start({ objects: clusterOf(size) });
  const services = await list(server.url + paths.services);
  const slices = await list(server.url + paths.slices);
  await server.stop();
  const endpoints = size.services * size.endpoints;
  const where = sizeText(size);
  return [
    bytesRow(`Service list, per Service, ${where}`, services.plainBytes / size.services),
    bytesRow(`slice list, per endpoint, ${where}`, slices.plainBytes / endpoints),
    {
      subject: "API server",
      kind: "figure",
      unit: "",
      what: `requests for both lists, ${pageSize} objects each, ${where}`,
      value: services.requests + slices.requests,
    },
  ];
}

function bytesRow(what: string, value: number): Row {
  return { subject: "API server", kind: "figure", unit: "bytes", what, value: Math.round(value) };
}

/** Lists page by page, as the daemon does. */
async function list(url: string): Promise<Listed> {
  let [requests, plainBytes, next] = [0, 0, ""];
  do {
    const page = await read(`${url}?limit=${pageSize}&continue=${next}`);
    requests += 1;
    plainBytes += page.length;
    const { metadata } = JSON.parse(page.toString()) as { metadata: { continue?: string } };
    next = metadata.continue ?? "";
  } while (next !== "");
  return { requests, plainBytes };
}

function read(url: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    get(url, { agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => resolve(Buffer.concat(chunks)));
    }).on("error", reject);
  });
}

/** Each event is the first line of a watch from the revision before it. */
async function eventRows(): Promise<readonly Row[]> {
  const server = await ApiServer.start({ objects: [serviceOf(0)] });
  const rows: Row[] = [];
  for (const endpoints of eventEndpoints) {
    const { revision } = server.store;
    server.apply(...slicesOf(0, positions(endpoints)));
    const url = `${server.url}${paths.slices}?watch=true&resourceVersion=${revision}`;
    rows.push(bytesRow(`event of a slice with ${endpoints} endpoints`, await firstLineBytes(url)));
  }
  await server.stop();
  return rows;
}

function firstLineBytes(url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = get(url, { agent: false }, (response) => {
      let text = "";
      response.setEncoding("latin1").on("data", (chunk: string) => {
        text += chunk;
        if (!text.includes("\n")) return;
        sent.destroy();
        resolve(text.indexOf("\n") + 1);
      });
    });
    // destroy() above also causes an error, which is ignored because the promise is already resolved.
    sent.on("error", reject);
  });
}
