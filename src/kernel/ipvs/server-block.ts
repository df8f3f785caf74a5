import type { RealServer } from "../../state/real-server.ts";

/** What the kernel tells of one virtual server and its real servers in one piece; valid until the next one is given. */
export interface ServerBlock {
  /** 53 bits that stand for all of it but for its counts of connections. */
  hash(): number;
  /** The key of the virtual server and its real servers; undefined where it is none with an address. */
  read(): ServerWithKey | undefined;
}

export type ServerWithKey = readonly [key: string, realServers: readonly RealServer[]];

/** Says whether it wants more. */
export type TakeServerBlock = (block: ServerBlock) => boolean;
