/** The kubectl plugin as an archive, and the manifest that krew installs it from. */
import { stringify } from "yaml";
import { gzipped, plainMode, tarOf } from "./archive.ts";
import { digestOf } from "./layout.ts";

export interface PluginFacts {
  readonly version: string;
  /** The project's page, below which its releases are published. */
  readonly projectUrl: string;
}

const executable = "kubectl-kube_ipvs";

/** The plugin and its license. */
export function pluginArchive(project: string, epochSeconds: number): Buffer {
  const members = ["LICENSE", `deploy/${executable}`];
  return gzipped(tarOf(project, { epochSeconds, mode: plainMode, members }));
}

/** In the format of https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/. */
export function krewManifest(archive: Buffer, name: string, facts: PluginFacts): string {
  const { version, projectUrl } = facts;
  return stringify({
    apiVersion: "krew.googlecontainertools.github.com/v1alpha2",
    kind: "Plugin",
    metadata: { name: "kube-ipvs" },
    spec: {
      version: `v${version}`,
      homepage: projectUrl,
      shortDescription: "Run kube-ipvs commands on nodes",
      description:
        "Runs a command of kube-ipvs, such as status, services, doctor or explain, in its pod on a node, or on all nodes at once.",
      platforms: [
        {
          selector: {
            matchExpressions: [{ key: "os", operator: "In", values: ["darwin", "linux"] }],
          },
          uri: `${projectUrl}/releases/download/v${version}/${name}`,
          sha256: digestOf(archive).slice("sha256:".length),
          files: [
            { from: `deploy/${executable}`, to: "." },
            { from: "LICENSE", to: "." },
          ],
          bin: executable,
        },
      ],
    },
  });
}
