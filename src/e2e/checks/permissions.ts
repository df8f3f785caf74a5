/** Checks the daemon's account: its permissions, forbidden requests, and Events. */
import { ApiError } from "../../api/api-error.ts";
import { neededRights, type Right, rightsTo } from "../../api/needed-rights.ts";
import { errorText } from "../../base/error-text.ts";
import { claimingService, program } from "../objects.ts";
import { judged, notApplicable, type Outcome, ok } from "../outcome.ts";
import { clusterIps, daemonOn, type Scene } from "../scene.ts";

/** Some permissions that the role system:node-proxier does not grant. */
const excessRights: readonly Right[] = [
  ...rightsTo("", "secrets", ["list"]),
  ...rightsTo("", "pods", ["create"]),
  ...rightsTo("", "services", ["patch"]),
];

export async function account(scene: Scene): Promise<Outcome> {
  const { account: user } = await daemonOn(scene, scene.nodes[0].name);
  try {
    const problems = await Promise.all([
      ...neededRights.map((right) => rightProblems(scene, user, { ...right, isExpected: true })),
      ...excessRights.map((right) => rightProblems(scene, user, { ...right, isExpected: false })),
    ]);
    return judged(
      problems.flat(),
      `${user} can read what it needs and write Events, and has none of the other permissions that are checked`,
    );
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 403)) throw error;
    return notApplicable(errorText(error));
  }
}

async function rightProblems(
  { api }: Scene,
  user: string,
  { verb, group, resource, isExpected }: Right & { readonly isExpected: boolean },
): Promise<readonly string[]> {
  const [, , namespace = ""] = user.split(":");
  const groups = [
    "system:serviceaccounts",
    `system:serviceaccounts:${namespace}`,
    "system:authenticated",
  ];
  const { status } = await api.authorization.createSubjectAccessReview({
    body: {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SubjectAccessReview",
      spec: { user, groups, resourceAttributes: { verb, group, resource } },
    },
  });
  if ((status?.allowed === true) === isExpected) return [];
  return [`${user} may ${isExpected ? "not " : ""}${verb} ${resource}`];
}

/** A Service that requests another Service's cluster IP does not get it, and an Event reports that. */
export async function events(scene: Scene): Promise<Outcome> {
  const { api, namespace, patience } = scene;
  const [address = ""] = clusterIps(scene, "web");
  try {
    const body = claimingService(namespace, address);
    await api.core.createNamespacedService({ namespace, body });
  } catch (error) {
    return notApplicable(`the API server admits no Service with external IPs: ${errorText(error)}`);
  }
  const note = await patience.until("an Event AddressClaimed about Service claim", async () => {
    const { items } = await api.events.listNamespacedEvent({ namespace });
    return items.find(
      ({ reason, regarding }) => reason === "AddressClaimed" && regarding?.name === "claim",
    )?.note;
  });
  return ok(note);
}

/** Reads the daemons' counts of their own requests. */
export async function forbidden(scene: Scene): Promise<Outcome> {
  const unread: string[] = [];
  const problems = await Promise.all(
    (await scene.listDaemons()).map(async ({ nodeName, place, metricsPort }) => {
      const urls = ["127.0.0.1", "[::1]"].map((host) => `http://${host}:${metricsPort}/metrics`);
      const result = await scene.shell.run(place, [program, "get", ...urls]);
      if (result.exitCode !== 0) unread.push(`${nodeName}: ${result.err.trim()}`);
      return forbiddenRequests(result.out).map((what) => `${nodeName}: ${what}`);
    }),
  );
  const [first] = unread;
  if (first !== undefined) return notApplicable(`metrics cannot be read: ${first}`);
  return judged(problems.flat(), "the API server answered no daemon request with 403");
}

const series = /^rest_client_requests_total\{([^}]*)\} (\S+)$/gm;

/** Lists the requests with response 403 in a daemon's metrics. Pure. */
export function forbiddenRequests(metrics: string): readonly string[] {
  return [...metrics.matchAll(series)]
    .filter(([, labels = "", count]) => labels.includes('code="403"') && Number(count) > 0)
    .map(([, labels = "", count]) => {
      const method = /method="([^"]*)"/.exec(labels)?.[1] ?? "?";
      return `${count} ${method} requests were answered with 403`;
    });
}
