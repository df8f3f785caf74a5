/** Reports other programs' transactions that change our tables. linux/netfilter/nf_tables.h. */
import { escapeUnprintable } from "../../base/printable.ts";
import { text } from "../../netlink/attribute-field.ts";
import { attributeSet } from "../../netlink/attribute-set.ts";
import { areMessagesLost } from "../../netlink/errors.ts";
import { type Message, MessageWriter, messagesOf } from "../../netlink/message.ts";
import { skipNetfilterHeader } from "../../netlink/netfilter.ts";
import { subscribe } from "../../netlink/subscription.ts";
import type { TransportDependencies } from "../../netlink/transport.ts";
import type { TablesListener } from "../kernel.ts";
import { decodeCommit } from "./generation.ts";
import { messageType, nftTransportOptions, tableAttributes, tableName } from "./message.ts";

/** NFNLGRP_NFTABLES. */
const group = 7;
/** Large enough for a transaction with thousands of rules. Only unread messages use memory. */
const receiveBufferBytes = 8 * 1024 * 1024;

/** NFTA_SET_ELEM_LIST_*. */
const elementsAttributes = attributeSet({ set: text(2) });

/** The attribute at the start of each notification about an object in our tables. */
const ourTable = ((): Buffer => {
  const writer = new MessageWriter(32);
  tableAttributes.encode(writer, { name: tableName });
  return Buffer.from(writer.written);
})();

/**
 * Returns a function that ends the watch. Until `readOwnPorts` has returned the port IDs of the sockets that write our
 * tables, our own transactions are reported too. Throws NetlinkError.
 */
export function watchTables(
  parts: TransportDependencies,
  readOwnPorts: () => Promise<readonly number[]>,
  { onChange, onError }: TablesListener,
): () => void {
  let ownPorts: readonly number[] = [];
  let isOurTable = false;
  let setNames = new Set<string>();
  const begin = (): void => {
    isOurTable = false;
    setNames = new Set();
  };
  const note = (message: Message): void => {
    const isElements =
      message.type === messageType("newElements") || message.type === messageType("deleteElements");
    if (message.type === messageType("newGeneration")) {
      const { process, processId } = decodeCommit(message);
      const by = `${escapeUnprintable(process ?? "unknown")} (PID ${processId ?? "unknown"})`;
      onChange({ by, setNames });
      begin();
    } else if (isElements) {
      skipNetfilterHeader(message.body);
      const { set } = elementsAttributes.decode(message.body);
      if (set !== undefined) setNames.add(set);
    }
  };
  const stop = subscribe(parts, {
    protocol: nftTransportOptions.protocol,
    groups: [group],
    receiveBufferBytes,
    // All messages of a datagram belong to one transaction. A transaction's last datagram contains only the generation.
    accepts(datagram) {
      const first = messagesOf(datagram).next().value;
      if (first === undefined || ownPorts.includes(first.portId)) return false;
      if (first.type === messageType("newGeneration")) return isOurTable;
      const isOurs = Buffer.from(datagram.buffer, datagram.byteOffset, datagram.length).includes(
        ourTable,
      );
      isOurTable ||= isOurs;
      return isOurs;
    },
    onMessage: note,
    onError(error) {
      begin();
      if (areMessagesLost(error)) onChange({});
      else onError(error);
    },
  });
  readOwnPorts().then((ports) => {
    ownPorts = ports;
  }, onError);
  return stop;
}
