/** Whether IPVS holds what is expected: compares what looks otherwise than the last time, and nothing else. */
import type { ByteReader } from "../../netlink/byte-reader.ts";
import { PartMemory } from "../../netlink/part-memory.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import type { ExpectedServers } from "../kernel.ts";
import { decodeService, hashOfService } from "./codec.ts";
import type { ServerBlock } from "./server-block.ts";

/** In place of a key: services of firewall marks, and what else has no address of ours to be. */
const noServer = "";

/** Parts that were found right, by the keys of their virtual servers. */
export class Confirmation {
  readonly #services = new PartMemory<string>();
  readonly #blocks = new PartMemory<string>();
  /** Keys of which something else is expected now. */
  readonly #changed = new Set<string>();

  /** Something else may be expected of everything. */
  forget(): void {
    this.#services.forget();
    this.#blocks.forget();
    this.#changed.clear();
  }

  noteChanged(key: string): void {
    if (!this.#services.isEmpty) this.#changed.add(key);
  }

  begin(expected: ExpectedServers): ConfirmationPass {
    return new ConfirmationPass(expected, this.#services, this.#blocks, this.#changed);
  }

  /** Says what came of it. */
  end(pass: ConfirmationPass): boolean {
    if (!pass.isRight) {
      this.forget();
      return false;
    }
    this.#services.end();
    this.#blocks.end();
    this.#changed.clear();
    return true;
  }
}

/** One look at everything, part by part. */
export class ConfirmationPass {
  readonly #expected: ExpectedServers;
  readonly #services: PartMemory<string>;
  readonly #blocks: PartMemory<string>;
  readonly #changed: ReadonlySet<string>;
  /** Hashes of parts that are none of a virtual server. */
  readonly #others = { services: new Set<number>(), blocks: new Set<number>() };
  #isWrong = false;

  constructor(
    expected: ExpectedServers,
    services: PartMemory<string>,
    blocks: PartMemory<string>,
    changed: ReadonlySet<string>,
  ) {
    this.#expected = expected;
    this.#services = services;
    this.#blocks = blocks;
    this.#changed = changed;
    services.begin();
    blocks.begin();
  }

  /** Something was found that is not expected. */
  get isWrong(): boolean {
    return this.#isWrong;
  }

  get isRight(): boolean {
    const { count } = this.#expected;
    return (
      !this.#isWrong &&
      this.#services.seen - this.#others.services.size === count &&
      this.#blocks.seen - this.#others.blocks.size === count
    );
  }

  /** A message of a GET_SERVICE reply; a listing may begin anew and bring it again. */
  takeService(body: ByteReader): void {
    if (this.#isWrong) return;
    const hash = hashOfService(body);
    const key = this.#recall(this.#services, hash) ?? this.#compareService(body, hash);
    if (key === noServer) this.#others.services.add(hash);
  }

  /** A virtual server with its real servers. False: it is not as expected, and the rest does not matter. */
  takeBlock(block: ServerBlock): boolean {
    const hash = block.hash();
    const key = this.#recall(this.#blocks, hash) ?? this.#compareBlock(block, hash);
    if (key === noServer) this.#others.blocks.add(hash);
    return !this.#isWrong;
  }

  #recall(parts: PartMemory<string>, hash: number): string | undefined {
    const key = parts.recall(hash);
    return key === undefined || this.#changed.has(key) ? undefined : key;
  }

  #compareService(body: ByteReader, hash: number): string {
    const service = decodeService(body);
    const isServer = service.kind === "virtual-server";
    const isRight = !isServer || this.#expected.hasVirtualServer(service.virtualServer);
    const key = isServer ? virtualServerKey(service.virtualServer) : noServer;
    this.#note(this.#services, { hash, key, isRight });
    return key;
  }

  #compareBlock(block: ServerBlock, hash: number): string {
    const [key, realServers] = block.read() ?? [noServer, []];
    const isRight = key === noServer || this.#expected.hasRealServers(key, realServers);
    this.#note(this.#blocks, { hash, key, isRight });
    return key;
  }

  /** What is wrong is never recalled as right, even if the pass breaks off. */
  #note(
    parts: PartMemory<string>,
    part: { readonly hash: number; readonly key: string; readonly isRight: boolean },
  ): void {
    if (part.isRight) parts.note(part.hash, part.key);
    else this.#isWrong = true;
  }
}
