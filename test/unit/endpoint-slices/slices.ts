/** Records for slice tests, and slices as an API server would store them after a plan. */
import type { IpAddress } from "../../../src/base/ip.ts";
import {
  managedByLabel,
  type NewSlice,
  type PodRecord,
  type SelectingService,
  type StoredSlice,
} from "../../../src/endpoint-slices/objects.ts";
import {
  planSlices,
  type SlicePlan,
  type SliceSituation,
} from "../../../src/endpoint-slices/plan-slices.ts";

export const ip = (text: string): IpAddress => text as IpAddress;

/** A ready Pod `default/p<number>` with label app=web, at 10.0.<number / 250>.<number % 250 + 1>. */
export function pod(number: number, fields: Partial<PodRecord> = {}): PodRecord {
  return {
    name: `default/p${String(number).padStart(4, "0")}`,
    uid: `uid-${number}`,
    labels: { app: "web" },
    addresses: [ip(`10.0.${Math.floor(number / 250)}.${(number % 250) + 1}`)],
    nodeName: "node-1",
    isReady: true,
    isTerminating: false,
    hostname: "",
    subdomain: "",
    namedPorts: [],
    ...fields,
  };
}

export function pods(count: number, first = 0): PodRecord[] {
  return Array.from({ length: count }, (_, index) => pod(first + index));
}

/** Service `default/web` that selects app=web, port `http` to 8080. */
export function selecting(fields: Partial<SelectingService> = {}): SelectingService {
  return {
    name: "default/web",
    uid: "service-uid",
    selector: { app: "web" },
    labels: {},
    families: ["IPv4"],
    ports: [{ name: "http", protocol: "TCP", target: 8080, appProtocol: "" }],
    publishesNotReady: false,
    isHeadless: false,
    ...fields,
  };
}

/** One Service's stored slices, to which plans are applied. */
export class SliceShelf {
  stored: StoredSlice[] = [];
  writes = 0;
  #version = 0;

  plan(service: SelectingService | undefined, of: Iterable<PodRecord>): SlicePlan {
    const situation: SliceSituation = {
      name: "default/web",
      service,
      pods: of,
      stored: this.stored,
      isNameTaken: (name) => this.stored.some((slice) => slice.name === name),
    };
    return planSlices(situation);
  }

  /** Plans and applies the changes. Returns the number of writes. */
  sync(service: SelectingService | undefined, of: Iterable<PodRecord>): number {
    const plan = this.plan(service, of);
    const { creates, updates, deletes } = plan;
    this.stored = this.stored.filter((slice) => !deletes.includes(slice));
    for (const { stored, content } of updates) {
      this.#replace(stored, { ...stored, ...content, hasEndpoints: content.endpoints.length > 0 });
    }
    for (const slice of creates) this.stored.push(this.#storedOf(slice));
    const writes = creates.length + updates.length + deletes.length;
    this.writes += writes;
    return writes;
  }

  #replace(before: StoredSlice, after: StoredSlice): void {
    const resourceVersion = String(++this.#version);
    this.stored = this.stored.map((slice) =>
      slice === before ? { ...after, resourceVersion } : slice,
    );
  }

  #storedOf(slice: NewSlice): StoredSlice {
    return {
      ...slice,
      managedBy: slice.labels[managedByLabel] ?? "",
      hasEndpoints: slice.endpoints.length > 0,
      uid: `slice-${++this.#version}`,
      resourceVersion: String(this.#version),
    };
  }
}

/** The data that a proxy reads from slices: `address:ports conditions` for each endpoint, sorted. */
export function served(stored: readonly StoredSlice[]): readonly string[] {
  const lines = stored.flatMap(({ ports, endpoints, family = "" }) =>
    endpoints.map((endpoint) => {
      const numbers = ports.map(({ name, port, protocol }) => `${name}=${port}/${protocol}`);
      const { address, pod: name, isReady, isServing, isTerminating, hostname } = endpoint;
      const flags = [isReady, isServing, isTerminating].map(Number).join("");
      return `${family} ${name} ${address} ${numbers.sort().join()} ${flags} ${hostname}`;
    }),
  );
  return lines.sort();
}
