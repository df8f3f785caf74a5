/**
 * Random histories of a cluster with a running controller: Pods, Services and slices change, third parties write and
 * remove slices, watches and writes fail, and the controller is restarted. At the end, exactly one endpoint must exist
 * for each Pod that a Service selects.
 */
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import fc from "fast-check";
import { ApiServer } from "../../support/api-server/api-server.ts";
import { resourceOf } from "../../support/api-server/resources.ts";
import { type ApiObject, endpointSlice, pod, service } from "../../support/objects.ts";
import { seeds } from "../../support/seeds.ts";
import { startController } from "./started-controller.ts";

const counts = { short: 5, long: 100 };
const stepCount = 60;
const managedBy = "endpointslice.kubernetes.io/managed-by";
const ours = "kube-ipvs-endpoint-controller";

const podNames = ["p-0", "p-1", "p-2", "p-3"] as const;
const serviceNames = ["web", "api"] as const;
const ipv4s = ["10.244.1.10", "10.244.1.11", "10.244.1.12"] as const;

const pods: fc.Arbitrary<ApiObject> = fc
  .record({
    name: fc.constantFrom(...podNames),
    app: fc.constantFrom("web", "web", "api", "none"),
    ips: fc.constantFrom(
      ...ipv4s.map((one): readonly string[] => [one]),
      ["10.244.1.13", "fd00:244::5"],
      ["fd00:244::6"],
      [],
    ),
    isReady: fc.boolean(),
    isTerminating: fc.boolean(),
    phase: fc.constantFrom("Running", "Running", "Running", "Succeeded"),
    port: fc.constantFrom(8080, 9090),
    uid: fc.constantFrom("a", "b"),
  })
  .map(({ name, app, ips, isReady, isTerminating, phase, port, uid }) =>
    pod({
      ...{ name, ips, isReady, labels: { app } },
      metadata: {
        uid,
        ...(isTerminating ? { deletionTimestamp: "2026-01-01T00:00:00Z" } : {}),
      },
      spec: {
        containers: [
          { name: "c", ports: [{ name: "named", containerPort: port, protocol: "TCP" }] },
        ],
      },
      status: { phase },
    }),
  );

const services: fc.Arbitrary<ApiObject> = fc
  .record({
    name: fc.constantFrom(...serviceNames),
    app: fc.constantFrom("web", "web", "api", undefined),
    clusterIps: fc.constantFrom(
      ["10.96.0.10"],
      ["10.96.0.10", "fd00:96::a"],
      ["fd00:96::a"],
      ["None"],
    ),
    targetPort: fc.constantFrom<string | number>(8080, "named", "missing"),
    publishNotReadyAddresses: fc.boolean(),
    uid: fc.constantFrom("a", "b"),
    labels: fc.constantFrom({}, { team: "x" }),
  })
  .map(({ name, app, clusterIps, targetPort, publishNotReadyAddresses, uid, labels }) =>
    service({
      ...{ name, clusterIps, labels },
      metadata: { uid },
      ports: [{ name: "http", protocol: "TCP", port: 80, targetPort }],
      spec: {
        publishNotReadyAddresses,
        ...(clusterIps[0] === "None" ? { ipFamilies: ["IPv4"] } : {}),
        ...(app === undefined ? {} : { selector: { app } }),
      },
    }),
  );

type Step =
  | { readonly kind: "apply" | "delete"; readonly object: ApiObject }
  /** A third party's change to one of the slices. */
  | { readonly kind: "wipe" | "remove" | "label" | "own" | "copy"; readonly nth: number }
  | { readonly kind: "foreign" | "no-foreign"; readonly service: string }
  | { readonly kind: "restart" | "kill-watches" | "compact" | "wait" | "second" }
  | { readonly kind: "fail"; readonly effect: "reset" | "status" };

const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 10, arbitrary: fc.record({ kind: fc.constant("apply" as const), object: pods }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("delete" as const), object: pods }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("apply" as const), object: services }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("delete" as const), object: services }) },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        "wipe" as const,
        "remove" as const,
        "label" as const,
        "own" as const,
        "copy" as const,
      ),
      nth: fc.nat(3),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom("foreign" as const, "no-foreign" as const),
      service: fc.constantFrom(...serviceNames),
    }),
  },
  {
    weight: 14,
    arbitrary: fc
      .constantFrom(
        "restart" as const,
        "kill-watches" as const,
        "compact" as const,
        "wait" as const,
        "wait" as const,
        "wait" as const,
        "wait" as const,
        "wait" as const,
        "wait" as const,
        "second" as const,
      )
      .map((kind) => ({ kind })),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("fail" as const),
      effect: fc.constantFrom("reset" as const, "status" as const),
    }),
  },
);

const sliceResource = resourceOf(endpointSlice());

class Stage {
  readonly server: ApiServer;
  readonly #test: TestContext;
  #controllers: Awaited<ReturnType<typeof startController>>[] = [];

  constructor(test: TestContext, server: ApiServer) {
    this.server = server;
    this.#test = test;
  }

  async start(): Promise<void> {
    this.#controllers.push(await startController(this.#test, this.server));
  }

  async stop(): Promise<void> {
    for (const controller of this.#controllers.splice(0)) await controller.stop();
  }

  get isSettled(): boolean {
    return this.#controllers.every(({ isSettled }) => isSettled);
  }

  async #settle(): Promise<void> {
    for (let tries = 0; tries < 50 && !this.isSettled; tries += 1) await pause(10);
  }

  get slices(): readonly ApiObject[] {
    return this.server.store.list(sliceResource);
  }

  async undergo(step: Step): Promise<void> {
    const { server } = this;
    switch (step.kind) {
      case "apply":
      case "delete":
        return void server[step.kind](step.object);
      case "foreign":
        return void server.apply(foreign(step.service));
      case "no-foreign":
        return void server.delete(foreign(step.service));
      case "restart":
        await this.stop();
        return this.start();
      case "second":
        return this.start();
      case "kill-watches":
        return server.resetConnections();
      case "compact":
        server.store.compact();
        return server.resetConnections();
      case "wait":
        return this.#settle();
      case "fail":
        return void server.faults.add({
          ...{ on: "write", times: 1 },
          ...(step.effect === "reset" ? { effect: "reset" } : { effect: "status", code: 500 }),
        } as Parameters<typeof server.faults.add>[0]);
      default:
        return this.#interfere(step.kind, step.nth);
    }
  }

  #interfere(kind: "wipe" | "remove" | "label" | "own" | "copy", nth: number): void {
    const slice = this.slices.filter(isOurs)[nth];
    if (slice === undefined) return;
    const { metadata } = slice;
    const labels = metadata["labels"] as Readonly<Record<string, string>>;
    if (kind === "remove") return void this.server.delete(slice);
    if (kind === "wipe") return void this.server.apply({ ...slice, endpoints: [] });
    if (kind === "own")
      return void this.server.apply({ ...slice, metadata: { ...metadata, ownerReferences: [] } });
    if (kind === "label")
      return void this.server.apply({
        ...slice,
        metadata: { ...metadata, labels: { ...labels, added: "by another" } },
      });
    this.server.apply({
      ...slice,
      metadata: {
        ...metadata,
        name: `copy-of-${String(metadata["name"])}`.slice(0, 60),
        uid: "copy",
      },
    });
  }
}

function foreign(name: string): ApiObject {
  return endpointSlice({
    name: `${name}-foreign`,
    service: name,
    labels: { [managedBy]: "other" },
  });
}

function isOurs({ metadata }: ApiObject): boolean {
  return (metadata["labels"] as Readonly<Record<string, string>>)[managedBy] === ours;
}

type Fields = Readonly<Record<string, unknown>>;

/** `web IPv4 p-0 10.244.1.10:8080 ready` for each endpoint that should exist. */
function wanted({ store }: ApiServer, slices: readonly ApiObject[]): readonly string[] {
  const known = store.list(resourceOf(pod())) as readonly (ApiObject & {
    spec: Fields;
    status: Fields;
  })[];
  return store
    .list(resourceOf(service()))
    .flatMap((each) => {
      const name = String(each.metadata["name"]);
      const spec = each["spec"] as Fields;
      const selector = spec["selector"] as { readonly app: string } | undefined;
      if (selector === undefined) return [];
      const isForeign = slices.some(
        (slice) =>
          !isOurs(slice) &&
          (slice.metadata["labels"] as Fields)["kubernetes.io/service-name"] === name,
      );
      if (isForeign) return [];
      const [{ targetPort }] = spec["ports"] as [{ targetPort: string | number }];
      return known.flatMap(({ metadata, status, spec: podSpec }) => {
        if (
          (metadata["labels"] as Fields)["app"] !== selector.app ||
          status["phase"] === "Succeeded"
        )
          return [];
        const [
          {
            ports: [{ containerPort }],
          },
        ] = podSpec["containers"] as [{ ports: [{ containerPort: number }] }];
        const port =
          targetPort === "named" ? containerPort : targetPort === "missing" ? "none" : targetPort;
        const [{ status: ready }] = status["conditions"] as [{ status: string }];
        const isReady =
          spec["publishNotReadyAddresses"] === true ||
          (ready === "True" && metadata["deletionTimestamp"] === undefined);
        return (status["podIPs"] as readonly { ip: string }[])
          .map(({ ip }) => ip)
          .filter((ip) => (spec["ipFamilies"] as readonly string[]).includes(familyOf(ip)))
          .map(
            (ip) => `${name} ${familyOf(ip)} ${String(metadata["name"])} ${ip}:${port} ${isReady}`,
          );
      });
    })
    .sort();
}

function found(slices: readonly ApiObject[]): readonly string[] {
  return slices
    .filter(isOurs)
    .flatMap((slice) => {
      const name = (slice.metadata["labels"] as Fields)["kubernetes.io/service-name"];
      const [port] = slice["ports"] as readonly { port: number }[];
      const endpoints = slice["endpoints"] as readonly {
        readonly addresses: readonly string[];
        readonly conditions: Fields;
        readonly targetRef: Fields;
      }[];
      return endpoints.map(
        ({ addresses, conditions, targetRef }) =>
          `${name} ${String(slice["addressType"])} ${String(targetRef["name"])} ${addresses.join()}:${port?.port ?? "none"} ${String(conditions["ready"])}`,
      );
    })
    .sort();
}

function familyOf(ip: string): string {
  return ip.includes(":") ? "IPv6" : "IPv4";
}

describe("random histories of the endpoint controller", () => {
  for (const seed of seeds(counts)) {
    it(`seed ${seed} ends with an endpoint for each Pod`, async (test) => {
      const [history = []] = fc.sample(
        fc.noBias(fc.array(steps, { minLength: stepCount, maxLength: stepCount })),
        { seed, numRuns: 1 },
      );
      const server = await ApiServer.start();
      test.after(() => server.stop());
      const stage = new Stage(test, server);
      await stage.start();
      for (const step of history) await stage.undergo(step);
      const isRight = (): boolean =>
        stage.isSettled && found(stage.slices).join() === wanted(server, stage.slices).join();
      for (let tries = 0; tries < 1_000 && !isRight(); tries += 1) await pause(20);
      const kinds = history.map((step) => JSON.stringify(step)).join("\n");
      assert.deepEqual(found(stage.slices), wanted(server, stage.slices), kinds);
      assert.ok(stage.isSettled);
      await stage.stop();
    });
  }
});
