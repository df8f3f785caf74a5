/** Release notes: the written part (docs/releases/), and the list of artifacts. */
import type { DebianPackage } from "./bill.ts";
import type { Architecture } from "./image.ts";

export interface ReleaseFacts {
  readonly version: string;
  readonly revision: string;
  readonly nodeVersion: string;
  /** The repository without a tag. */
  readonly repository: string;
  /** Digest of the index for all architectures. */
  readonly indexDigest: string;
  readonly images: readonly {
    readonly architecture: Architecture;
    readonly digest: string;
    /** Size of the files that a node fetches, in bytes. */
    readonly size: number;
    readonly packages: readonly DebianPackage[];
  }[];
}

/** `written` is the text of docs/releases/VERSION.md. */
export function releaseNotes(written: string, facts: ReleaseFacts): string {
  const { version, revision, nodeVersion, repository, indexDigest, images } = facts;
  const rows = images.map(
    ({ architecture, digest, size }) =>
      `| \`kube-ipvs-${version}-${architecture}.oci.tar\` | ${architecture} | ${Math.round(size / 1e6)} MB | \`${digest}\` |`,
  );
  const [first] = images;
  const packages = (first?.packages ?? []).map((one) => `${one.name} ${one.version}`).join(", ");
  return `${written.trim()}

## Artifacts

${revision === "" ? "" : `Built from commit ${revision}. `}\`sha256sum -c SHA256SUMS\` checks the files.

| archive | architecture | size | digest of the image |
|---|---|---|---|
${rows.join("\n")}
| \`kube-ipvs-${version}.oci.tar\` | all of these | | \`${indexDigest}\` |

Push all architectures to your registry, and name the image by its digest:

\`\`\`sh
skopeo copy --all oci-archive:kube-ipvs-${version}.oci.tar:${version} docker://REPOSITORY:${version}
\`\`\`

Or load one on a node without a registry; it is then \`localhost/kube-ipvs:${version}\`:

\`\`\`sh
ctr --namespace k8s.io images import kube-ipvs-${version}-amd64.oci.tar   # containerd
podman load --input kube-ipvs-${version}-amd64.oci.tar                    # CRI-O, podman
\`\`\`

Manifests and chart name \`${repository}:${version}\`. To use another name, set it in \`kustomize/image/kustomization.yaml\` or in
the chart's \`image.repository\`.

## What is inside

Node.js ${nodeVersion}. Debian packages: ${packages}. All with versions in \`sbom-*.cdx.json\`, licenses in
\`kube-ipvs-${version}-licenses.tar.gz\`.
`;
}
