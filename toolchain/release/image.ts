/** Creates an image for one architecture from an assembled root. */
import { gzipped, tarOf } from "./archive.ts";
import { type Blob, blobOf, digestOf, jsonBlob, mediaTypes } from "./layout.ts";
import { pagesOf } from "./pages.ts";

/** Debian's name, which Go and OCI also use. */
export type Architecture = "amd64" | "arm64";

export interface ImageFacts {
  readonly architecture: Architecture;
  readonly version: string;
  /** The commit. Empty if unknown. */
  readonly revision: string;
  readonly epochSeconds: number;
  /** The project's page. Empty if unknown. */
  readonly projectUrl: string;
}

export interface Image {
  readonly manifest: Blob;
  /** The configuration and the layers. */
  readonly blobs: readonly Blob[];
}

const node = "./usr/local/lib/kube-ipvs/node";

/** Manifests for kube-proxy contain the path of the entry point in `command`. */
const execution = {
  Env: ["PATH=/usr/local/bin:/usr/sbin:/usr/bin", "NODE_COMPILE_CACHE=/var/cache/kube-ipvs"],
  Entrypoint: ["/usr/local/bin/kube-proxy"],
} as const;

/** Layers that rarely change are first, so that nodes fetch little in an update. */
const layers: readonly { readonly what: string; readonly members: readonly string[] }[] = [
  { what: "Debian packages", members: ["."] },
  { what: "Node.js", members: [node] },
  { what: "kube-ipvs", members: ["./usr/local"] },
];

/** The members of a layer that belong to later layers. */
function leftOut(members: readonly string[]): readonly string[] {
  if (members.includes(node)) return [];
  return members.includes(".") ? ["./usr/local"] : [node];
}

/** Creates the layers of the root at a path, with configuration and manifest. */
export function imageOf(root: string, facts: ImageFacts): Image {
  const { architecture, epochSeconds } = facts;
  const created = new Date(epochSeconds * 1_000).toISOString().replace(".000Z", "Z");
  const tars = layers.map(({ members }) =>
    tarOf(root, { epochSeconds, members, without: leftOut(members) }),
  );
  const config = jsonBlob(mediaTypes.config, {
    created,
    architecture,
    os: "linux",
    config: { ...execution, Labels: annotationsOf(facts, created) },
    rootfs: { type: "layers", diff_ids: tars.map(digestOf) },
    history: layers.map(({ what }) => ({ created, created_by: "make release", comment: what })),
  });
  const blobs = tars.map((tar) => blobOf(mediaTypes.layer, gzipped(tar)));
  const manifest = jsonBlob(mediaTypes.manifest, {
    schemaVersion: 2,
    mediaType: mediaTypes.manifest,
    config: config.descriptor,
    layers: blobs.map(({ descriptor }) => descriptor),
    annotations: annotationsOf(facts, created),
  });
  const descriptor = { ...manifest.descriptor, platform: { architecture, os: "linux" } };
  return { manifest: { ...manifest, descriptor }, blobs: [config, ...blobs] };
}

function annotationsOf({ version, revision, projectUrl }: ImageFacts, created: string): object {
  const pages = pagesOf(projectUrl, version);
  return {
    "org.opencontainers.image.title": "kube-ipvs",
    "org.opencontainers.image.description": "A stand-alone IPVS service proxy for Kubernetes",
    "org.opencontainers.image.licenses": "Apache-2.0",
    "org.opencontainers.image.version": version,
    "org.opencontainers.image.created": created,
    ...(revision === "" ? {} : { "org.opencontainers.image.revision": revision }),
    ...(pages === undefined
      ? {}
      : {
          "org.opencontainers.image.url": pages.home,
          "org.opencontainers.image.source": pages.home,
          "org.opencontainers.image.documentation": pages.documentation,
        }),
  };
}

/** Creates one index for images for several architectures. */
export function indexOf(images: readonly Image[]): Blob {
  return jsonBlob(mediaTypes.index, {
    schemaVersion: 2,
    mediaType: mediaTypes.index,
    manifests: images.map(({ manifest }) => manifest.descriptor),
  });
}
