/** OCI image layouts (image-spec 1.0.2) as files: blobs by digest, an index, and their archive. */
import { createHash } from "node:crypto";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tarOf } from "./archive.ts";

export interface Descriptor {
  readonly mediaType: string;
  /** sha256:… */
  readonly digest: string;
  /** Bytes. */
  readonly size: number;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly platform?: { readonly architecture: string; readonly os: string };
}

/** A blob's bytes, and the descriptor that refers to them. */
export interface Blob {
  readonly descriptor: Descriptor;
  readonly bytes: Buffer;
}

export const mediaTypes = {
  config: "application/vnd.oci.image.config.v1+json",
  layer: "application/vnd.oci.image.layer.v1.tar+gzip",
  manifest: "application/vnd.oci.image.manifest.v1+json",
  index: "application/vnd.oci.image.index.v1+json",
} as const;

export function digestOf(bytes: Buffer): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

export function blobOf(mediaType: string, bytes: Buffer): Blob {
  return { descriptor: { mediaType, digest: digestOf(bytes), size: bytes.length }, bytes };
}

export function jsonBlob(mediaType: string, value: object): Blob {
  return blobOf(mediaType, Buffer.from(JSON.stringify(value)));
}

export interface Layout {
  /** The entries of index.json: images, or one index of images. */
  readonly entries: readonly Descriptor[];
  readonly blobs: readonly Blob[];
}

/** The layout of one image with a name, such as `kube-ipvs:0.2.0`. */
export function layoutOf(top: Blob, blobs: readonly Blob[], name: string): Layout {
  const tag = name.slice(name.lastIndexOf(":") + 1);
  const annotations = {
    // containerd and podman use this annotation as the image's name. skopeo uses the other one.
    "io.containerd.image.name": `localhost/${name}`,
    "org.opencontainers.image.ref.name": tag,
  };
  return { entries: [{ ...top.descriptor, annotations }], blobs: [top, ...blobs] };
}

/** Writes a layout into a new folder and returns its archive. */
export function archiveOf(layout: Layout, folder: string, epochSeconds: number): Buffer {
  rmSync(folder, { recursive: true, force: true });
  const blobs = join(folder, "blobs/sha256");
  mkdirSync(blobs, { recursive: true });
  for (const { descriptor, bytes } of layout.blobs) {
    writeFileSync(join(blobs, descriptor.digest.slice("sha256:".length)), bytes, { mode: 0o644 });
  }
  const index = { schemaVersion: 2, mediaType: mediaTypes.index, manifests: layout.entries };
  writeFileSync(join(folder, "index.json"), JSON.stringify(index), { mode: 0o644 });
  writeFileSync(join(folder, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  const members = ["oci-layout", "index.json", "blobs"];
  return tarOf(folder, { epochSeconds, members });
}
