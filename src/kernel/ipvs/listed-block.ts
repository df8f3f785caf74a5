/** A virtual server and its real servers as GET_DEST lists them. */
import { familyOf } from "../../base/ip.ts";
import { ByteHash } from "../../netlink/byte-hash.ts";
import type { ByteReader } from "../../netlink/byte-reader.ts";
import { type VirtualServerId, virtualServerKey } from "../../state/virtual-server.ts";
import { decodeRealServer, hashOfRealServer } from "./codec.ts";
import type { ServerBlock, ServerWithKey } from "./server-block.ts";

const hash = new ByteHash();
/** For a key, longer than any, and then for one number after the other. */
const scratch = new DataView(new ArrayBuffer(128));
const keyBytes = new Uint8Array(scratch.buffer);
const encoder = new TextEncoder();
const numberBytes = 8;

export class ListedBlock implements ServerBlock {
  readonly #id: VirtualServerId;
  readonly #bodies: readonly ByteReader[];

  /** `bodies`: the messages of the reply, none of them read. */
  constructor(id: VirtualServerId, bodies: readonly ByteReader[]) {
    this.#id = id;
    this.#bodies = bodies;
  }

  hash(): number {
    hash.start();
    const { written } = encoder.encodeInto(virtualServerKey(this.#id), keyBytes);
    hash.add(scratch, 0, written);
    for (const body of this.#bodies) {
      scratch.setFloat64(0, hashOfRealServer(body));
      hash.add(scratch, 0, numberBytes);
    }
    return hash.value;
  }

  read(): ServerWithKey {
    const family = familyOf(this.#id.address);
    const realServers = this.#bodies.map((body) => {
      const { address, port, weight, forwardingMethod } = decodeRealServer(body, family);
      return { address, port, weight, forwardingMethod };
    });
    return [virtualServerKey(this.#id), realServers];
  }
}
