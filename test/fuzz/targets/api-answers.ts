/** Response bodies in pieces, from an API server or from another server in its place. */
import fc from "fast-check";
import { ApiError } from "../../../src/api/api-error.ts";
import { readListHead, readWatchEvent } from "../../../src/api/cluster/answers.ts";
import { LineSplitter } from "../../../src/api/cluster/line-splitter.ts";
import { ListSplitter } from "../../../src/api/cluster/list-splitter.ts";
import { watchedResources } from "../../../src/api/cluster/watched-resources.ts";
import { readCorpus } from "../corpus.ts";
import { mutatedBytes } from "../mutations.ts";
import { type FuzzTarget, verdictOf } from "../target.ts";

const objectLimitBytes = 100_000;
const resource = watchedResources("node-1").services;

interface Body {
  readonly bytes: Uint8Array;
  readonly pieceBytes: number;
}

function pieces({ bytes, pieceBytes }: Body): readonly Uint8Array[] {
  const count = Math.ceil(bytes.length / pieceBytes);
  return Array.from({ length: count }, (_, index) =>
    bytes.subarray(index * pieceBytes, (index + 1) * pieceBytes),
  );
}

function targetOf(name: string, read: (body: Body) => void): FuzzTarget<Body> {
  const kept = readCorpus(name);
  return {
    name,
    isDecoder: true,
    kept: kept.map((bytes) => ({ bytes, pieceBytes: 7 })),
    inputs: fc.record({
      bytes: mutatedBytes(kept),
      pieceBytes: fc.constantFrom(1, 3, 64, 100_000),
    }),
    run: (body) => verdictOf(() => read(body), isRefusal),
  };
}

/** The reflector treats errors of these two classes as an invalid response and retries. */
function isRefusal(error: unknown): boolean {
  return (
    error instanceof ApiError ||
    error instanceof SyntaxError ||
    (error as Error).constructor === Error
  );
}

export const targets: readonly FuzzTarget<Body>[] = [
  targetOf("api-lists", (body) => {
    const splitter = new ListSplitter(objectLimitBytes);
    for (const piece of pieces(body)) for (const _item of splitter.push(piece));
    readListHead(resource, splitter.end());
  }),
  targetOf("api-watches", (body) => {
    const lines = new LineSplitter(objectLimitBytes);
    for (const piece of pieces(body)) {
      for (const line of lines.push(piece)) readWatchEvent(resource, line);
    }
  }),
];
